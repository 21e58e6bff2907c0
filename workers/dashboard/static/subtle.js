// Gives a page of a plain-http host name, where browsers keep WebCrypto back, the part of it that
// the verifier of proofs takes: SHA-256, and whether an Ed25519 signature holds (RFC 8032).
//
// Nothing here is secret, so nothing is done in constant time. Keys and points that have two ways
// to be written, or are of a small order, are refused, as WebCrypto does.

const encodedBytes = (value) => (value instanceof Uint8Array ? value : new Uint8Array(value));
const primes = [];
for (let each = 2n; primes.length < 80; each += 1n) {
  if (primes.every((prime) => each % prime)) primes.push(each);
}

/** Returns the largest whole number whose power is not above a value. */
function root(value, power) {
  let [low, high] = [0n, 1n << 80n];
  while (low < high - 1n) {
    const middle = (low + high) >> 1n;
    if (middle ** power <= value) low = middle;
    else high = middle;
  }
  return low;
}

const WORD = (1n << 64n) - 1n;
const START = primes.slice(0, 8).map((prime) => root(prime << 128n, 2n) & WORD);
const ROUND = primes.map((prime) => root(prime << 192n, 3n) & WORD);
const START_32 = START.map((word) => Number(word >> 32n));
const ROUND_32 = ROUND.slice(0, 64).map((word) => Number(word >> 32n));

/** Returns a message with the end that both hashes give it. */
function padded(message, block) {
  const length = message.length + 1 + block / 8;
  const whole = new Uint8Array(Math.ceil(length / block) * block);
  whole.set(message);
  whole[message.length] = 0x80;
  new DataView(whole.buffer).setBigUint64(whole.length - 8, BigInt(message.length) * 8n);
  return whole;
}

function sha256(message) {
  const whole = padded(message, 64);
  const view = new DataView(whole.buffer);
  const state = Uint32Array.from(START_32);
  const words = new Uint32Array(64);
  const turn = (word, by) => (word >>> by) | (word << (32 - by));
  for (let place = 0; place < whole.length; place += 64) {
    for (let each = 0; each < 16; each += 1) words[each] = view.getUint32(place + 4 * each);
    for (let each = 16; each < 64; each += 1) {
      const [early, late] = [words[each - 15], words[each - 2]];
      const low = turn(early, 7) ^ turn(early, 18) ^ (early >>> 3);
      const high = turn(late, 17) ^ turn(late, 19) ^ (late >>> 10);
      words[each] = words[each - 16] + low + words[each - 7] + high;
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let each = 0; each < 64; each += 1) {
      const high = turn(e, 6) ^ turn(e, 11) ^ turn(e, 25);
      const first = (h + high + ((e & f) ^ (~e & g)) + ROUND_32[each] + words[each]) | 0;
      const low = turn(a, 2) ^ turn(a, 13) ^ turn(a, 22);
      const second = (low + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((word, each) => (state[each] += word));
  }
  const digest = new Uint8Array(32);
  state.forEach((word, each) => new DataView(digest.buffer).setUint32(4 * each, word));
  return digest;
}

function sha512(message) {
  const whole = padded(message, 128);
  const view = new DataView(whole.buffer);
  const state = [...START];
  const turn = (word, by) => ((word >> by) | (word << (64n - by))) & WORD;
  for (let place = 0; place < whole.length; place += 128) {
    const words = [];
    for (let each = 0; each < 16; each += 1) words.push(view.getBigUint64(place + 8 * each));
    for (let each = 16; each < 80; each += 1) {
      const [early, late] = [words[each - 15], words[each - 2]];
      const low = turn(early, 1n) ^ turn(early, 8n) ^ (early >> 7n);
      const high = turn(late, 19n) ^ turn(late, 61n) ^ (late >> 6n);
      words.push((words[each - 16] + low + words[each - 7] + high) & WORD);
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let each = 0; each < 80; each += 1) {
      const high = turn(e, 14n) ^ turn(e, 18n) ^ turn(e, 41n);
      const first = h + high + ((e & f) ^ ((e ^ WORD) & g)) + ROUND[each] + words[each];
      const low = turn(a, 28n) ^ turn(a, 34n) ^ turn(a, 39n);
      const second = low + ((a & b) ^ (a & c) ^ (b & c));
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) & WORD, c, b, a, (first + second) & WORD];
    }
    [a, b, c, d, e, f, g, h].forEach((word, each) => (state[each] = (state[each] + word) & WORD));
  }
  const digest = new Uint8Array(64);
  state.forEach((word, each) => new DataView(digest.buffer).setBigUint64(8 * each, word));
  return digest;
}

// ---- Ed25519 ------------------------------------------------------------------------------

const P = (1n << 255n) - 19n;
const ORDER = (1n << 252n) + 27742317777372353535851937790883648493n;
const mod = (value, by = P) => ((value % by) + by) % by;

function power(base, exponent) {
  let [result, square] = [1n, mod(base)];
  for (let rest = exponent; rest; rest >>= 1n) {
    if (rest & 1n) result = mod(result * square);
    square = mod(square * square);
  }
  return result;
}

const inverse = (value) => power(value, P - 2n);
const D = mod(-121665n * inverse(121666n));
const ROOT_OF_MINUS_ONE = power(2n, (P - 1n) / 4n);
const NEUTRAL = [0n, 1n, 1n, 0n];

function number(littleEndian) {
  return [...littleEndian].reduceRight((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
}

/** Returns the point that 32 bytes are, null where they are none. */
function point(content) {
  const stated = number(content);
  const [y, sign] = [stated & ((1n << 255n) - 1n), stated >> 255n];
  if (y >= P) return null;
  const [above, below] = [mod(y * y - 1n), mod(D * y * y + 1n)];
  const square = mod(above * inverse(below));
  let x = power(square, (P + 3n) / 8n);
  if (mod(x * x) !== square) x = mod(x * ROOT_OF_MINUS_ONE);
  if (mod(x * x) !== square || (x === 0n && sign)) return null;
  if ((x & 1n) !== sign) x = P - x;
  return [x, y, 1n, mod(x * y)];
}

function sum([x, y, z, t], [u, v, w, s]) {
  const a = mod((y - x) * (v - u));
  const b = mod((y + x) * (v + u));
  const c = mod(2n * t * s * D);
  const d = mod(2n * z * w);
  const [e, f, g, h] = [b - a, d - c, d + c, b + a];
  return [mod(e * f), mod(g * h), mod(f * g), mod(e * h)];
}

function times(factor, base) {
  let [result, doubled] = [NEUTRAL, base];
  for (let rest = factor; rest; rest >>= 1n) {
    if (rest & 1n) result = sum(result, doubled);
    doubled = sum(doubled, doubled);
  }
  return result;
}

const isSame = ([x, y, z], [u, v, w]) => mod(x * w) === mod(u * z) && mod(y * w) === mod(v * z);
const isSmall = (each) => isSame(times(8n, each), NEUTRAL);
const BASE = point(Uint8Array.of(0x58, ...new Array(31).fill(0x66)));

function ed25519Holds(key, signature, message) {
  if (key.length !== 32 || signature.length !== 64) return false;
  const [public_, random] = [point(key), point(signature.slice(0, 32))];
  const factor = number(signature.slice(32));
  if (public_ === null || random === null || factor >= ORDER) return false;
  if (isSmall(public_) || isSmall(random)) return false;
  const hashed = sha512(Uint8Array.of(...signature.slice(0, 32), ...key, ...message));
  const challenge = mod(number(hashed), ORDER);
  return isSame(times(factor, BASE), sum(random, times(challenge, public_)));
}

/** What the verifier takes of WebCrypto. */
export const subtle = {
  digest: async (_, content) => sha256(encodedBytes(content)).buffer,
  async importKey(_, key, { name }) {
    if (name !== "Ed25519") throw new Error(`${name} is not known here`);
    return encodedBytes(key);
  },
  verify: async (_, key, signature, message) =>
    ed25519Holds(key, encodedBytes(signature), encodedBytes(message)),
};

if (globalThis.crypto.subtle === undefined) {
  Object.defineProperty(globalThis.crypto, "subtle", { value: subtle, configurable: true });
}
