// Verifies proof files by itself, in a page or under Node: copy this one file.
//
//     node proof_file.mjs FILE VKEY
//
//     import { verified, ProofFileInvalid } from "./proof_file.mjs";
//     const proved = await verified(new Uint8Array(await file.arrayBuffer()), vkey);
//
// It needs what browsers and Node 20 have (SubtleCrypto with SHA-256 and Ed25519) and imports
// nothing. `proof_file.py` beside it says what a proof file holds and where the key has to come
// from; what both take for a proof is the same to the byte.

export const FORMAT = "rotulus-proof/v1";
export const FILE_BYTES_MAX = 16 << 20;

const TLOG_PROOF = "c2sp.org/tlog-proof@v1";
const BLOB_DOMAIN = "rotulus/payload/v1\0";
const SALT_BYTES = 32;
const HASH_BYTES = 32;
const ED25519 = 1;
const DIGITS_MAX = 18;
const ANCHOR_VERB = "belief_anchor";
const ELIMINATE_VERB = "ELIMINATE";
const MANIFEST_RECEIPT = "binding_evaluation_manifest";

const { subtle } = globalThis.crypto;

/** The file does not prove what it says. */
export class ProofFileInvalid extends Error {
  code = "proof_invalid";
}

/** Returns what the bytes of a proof file prove; throws `ProofFileInvalid` where it is nothing. */
export async function verified(content, vkey) {
  try {
    check(content.length <= FILE_BYTES_MAX, "the file is too large");
    const document = object(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content));
    check(document.format === FORMAT, `the format is not ${FORMAT}`);
    const kind = document.kind;
    check(typeof kind === "string" && Object.hasOwn(KINDS, kind), "the kind of proof is unknown");
    const proved = { verifies: true, verdict: "unwitnessed", kind };
    return { ...proved, ...(await KINDS[kind](document, vkey)) };
  } catch (error) {
    if (error instanceof ProofFileInvalid) throw error;
    throw new ProofFileInvalid(`this is no proof file: ${error.message}`);
  }
}

/** What verifies a kind of proof file, and returns what it proves. */
const KINDS = {
  /** An operation is in the log; its envelope may be withheld. */
  async operation(document, vkey) {
    const proved = await rowOf(document, vkey);
    const opening = document.envelope ?? null;
    const envelope = opening === null ? null : await openedEnvelope(proved.row, opening);
    return { ...proved, envelope };
  },

  /** A tombstone of a belief session is in the log. */
  async elimination(document, vkey) {
    const proved = await rowOf(document, vkey);
    const event = await anchoredEvent(proved.row, document.envelope, document.events);
    check(event.verb === ELIMINATE_VERB, "the event is no elimination");
    return { ...proved, event };
  },

  /** A manifest of an evaluation cycle is in the log. */
  async manifest(document, vkey) {
    const proved = await rowOf(document, vkey);
    const effect = soleEffect(await openedEnvelope(proved.row, document.envelope));
    check(effect.receipt_subkind === MANIFEST_RECEIPT, "the operation states no manifest");
    return { ...proved, manifest: effect.payload };
  },

  /** The log of a checkpoint goes on from that of an older one. */
  async consistency(document, vkey) {
    const old = await checkpointOf(document.old_checkpoint, vkey);
    const { origin, size, root } = await checkpointOf(document.checkpoint, vkey);
    await checkConsistency(old.size, old.root, size, root, hashes(document.path));
    return { origin, old_tree_head: treeHead(old.size, old.root), tree_head: treeHead(size, root) };
  },
};

/** Returns whose log has a row, under which head, and what the row says. */
async function rowOf(document, vkey) {
  const rowBytes = encoded(document.row);
  const { index, path, note } = tlogProof(text(document.tlog_proof));
  const { origin, size, root } = await checkpointOf(note, vkey);
  await checkInclusion(await leafHash(rowBytes), index, size, path, root);
  const row = object(document.row);
  check(row.ec_sequence_number === String(index + 1n), "the row is that of another place");
  return { origin, tree_head: treeHead(size, root), row };
}

/** Returns the envelope of an opening, to which a row commits. */
async function openedEnvelope(row, opening) {
  const isSalt = new RegExp(`^[0-9a-f]{${2 * SALT_BYTES}}$`).test(text(opening.salt));
  check(isSalt, `a salt is ${SALT_BYTES} bytes in lower-case hex`);
  const salt = Uint8Array.from(opening.salt.match(/../g), (pair) => parseInt(pair, 16));
  const content = encoded(opening.content);
  const length = new Uint8Array(8);
  new DataView(length.buffer).setBigUint64(0, BigInt(content.length));
  const commitment = hex(await sha256(encoded(BLOB_DOMAIN), salt, length, content));
  check(commitment === row.envelope_payload_blob_ref, "the row commits to another envelope");
  return object(opening.content);
}

/**
 * Returns the first of some events of a belief session, which an operation anchors.
 *
 * `events` are the bytes that are hashed of it and of all that follow it up to the head that the
 * operation names; each holds the hash of the one before.
 */
async function anchoredEvent(row, opening, events) {
  const envelope = await openedEnvelope(row, opening);
  check(envelope.semantic_intent === ANCHOR_VERB, "the operation anchors no session");
  check(Array.isArray(events) && events.length > 0, "no event is shown");
  const documents = events.map(object);
  const eventHashes = [];
  for (const event of events) eventHashes.push(hex(await sha256(encoded(event))));
  const sessionId = text(documents[0].session_id);
  const sessions = soleEffect(envelope).payload.sessions;
  const anchors = sessions.filter((anchor) => anchor.session_id === sessionId);
  check(anchors.length === 1, "the operation does not anchor this session");
  const [anchor] = anchors;
  const bounds = [anchor.first_event_index, anchor.last_event_index];
  check(bounds.every(Number.isSafeInteger), "an index is no number");
  check(events.length <= bounds[1] - bounds[0] + 1, "the operation anchors fewer events");
  documents.slice(1).forEach((document, place) => {
    check(document.prev_event_hash === eventHashes[place], "an event does not follow the one before");
    check(document.session_id === sessionId, "an event is of another session");
  });
  check(eventHashes.at(-1) === anchor.head_event_hash, "the operation anchors another event");
  return documents[0];
}

function soleEffect(envelope) {
  const effects = envelope.primitive_effects;
  check(Array.isArray(effects) && effects.length === 1, "the envelope has other effects");
  return effects[0];
}

function tlogProof(proof) {
  const end = proof.indexOf("\n\n");
  let [first, index, ...path] = proof.slice(0, Math.max(end, 0)).split("\n");
  check(end >= 0 && first === TLOG_PROOF, `the proof is no ${TLOG_PROOF}`);
  if (text(index).startsWith("extra ")) [index, ...path] = path;
  check(text(index).startsWith("index "), "the proof names no index");
  return {
    index: number(index.slice("index ".length)),
    path: hashes(path),
    note: proof.slice(end + 2),
  };
}

/** Returns what a checkpoint states that the key has signed. */
async function checkpointOf(note, vkey) {
  const [, name, keyId, encodedKey] = /^([^+]*)\+([^+]*)\+([^]*)$/.exec(vkey.trim()) ?? [];
  const key = decoded(encodedKey);
  const ownId = (await sha256(encoded(`${name}\n`), key)).slice(0, 4);
  check(key[0] === ED25519 && hex(ownId) === keyId, "the key is no Ed25519 key of a note");
  const end = text(note).lastIndexOf("\n\n");
  const signed = `${note.slice(0, Math.max(end, 0))}\n`;
  const prefix = `\u2014 ${name} `;
  for (const line of note.slice(end + 2).split("\n")) {
    if (end < 0 || !line.startsWith(prefix)) continue;
    const signature = decoded(line.slice(prefix.length));
    if (hex(signature.slice(0, 4)) !== keyId) continue;
    const imported = await subtle.importKey("raw", key.slice(1), "Ed25519", false, ["verify"]);
    if (!(await subtle.verify("Ed25519", imported, signature.slice(4), encoded(signed)))) break;
    const [origin, size, root] = signed.split("\n");
    check(origin === name, `the checkpoint is of ${origin}`);
    return { origin, size: number(size), root: decoded(root) };
  }
  throw new ProofFileInvalid(`the checkpoint is not signed by ${name}`);
}

/** Checks that a tree has a leaf with this hash at an index (RFC 9162 §2.1.3.2). */
export async function checkInclusion(leaf, index, size, path, root) {
  check(0n <= index && index < size, `a log of ${size} rows has no row ${index + 1n}`);
  checkHashes(path);
  let [place, last, node] = [index, size - 1n, leaf];
  for (const sibling of path) {
    check(last > 0n, "the path is too long");
    if (place & 1n || place === last) {
      node = await nodeHash(sibling, node);
      while (!(place & 1n) && place) [place, last] = [place >> 1n, last >> 1n];
    } else {
      node = await nodeHash(node, sibling);
    }
    [place, last] = [place >> 1n, last >> 1n];
  }
  check(last === 0n, "the path is too short");
  check(isEqual(node, root), "the path leads to another root");
}

/** Checks that a tree begins with an older one (RFC 9162 §2.1.4.2). */
export async function checkConsistency(oldSize, oldRoot, size, root, path) {
  check(0n <= oldSize && oldSize <= size, `a log of ${size} rows does not begin with ${oldSize}`);
  checkHashes(path);
  if (oldSize === 0n || oldSize === size) {
    const expected = oldSize ? root : await sha256();
    check(path.length === 0 && isEqual(oldRoot, expected), "the two trees are not the same");
    return;
  }
  check(path.length > 0, "the path is too short");
  const nodes = oldSize & (oldSize - 1n) ? [...path] : [oldRoot, ...path];
  let [place, last] = [oldSize - 1n, size - 1n];
  while (place & 1n) [place, last] = [place >> 1n, last >> 1n];
  let [oldNode, node] = [nodes[0], nodes[0]];
  for (const sibling of nodes.slice(1)) {
    check(last > 0n, "the path is too long");
    if (place & 1n || place === last) {
      [oldNode, node] = [await nodeHash(sibling, oldNode), await nodeHash(sibling, node)];
      while (!(place & 1n) && place) [place, last] = [place >> 1n, last >> 1n];
    } else {
      node = await nodeHash(node, sibling);
    }
    [place, last] = [place >> 1n, last >> 1n];
  }
  check(last === 0n, "the path is too short");
  check(isEqual(oldNode, oldRoot) && isEqual(node, root), "the path leads to another root");
}

/** Returns the hash of a leaf. */
export function leafHash(rowBytes) {
  return sha256(Uint8Array.of(0), rowBytes);
}

function nodeHash(left, right) {
  return sha256(Uint8Array.of(1), left, right);
}

async function sha256(...parts) {
  const joined = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let place = 0;
  for (const part of parts) {
    joined.set(part, place);
    place += part.length;
  }
  return new Uint8Array(await subtle.digest("SHA-256", joined));
}

function checkHashes(path) {
  check(path.every((node) => node.length === HASH_BYTES), "a hash has another length");
}

function hashes(lines) {
  check(Array.isArray(lines), "a path is a list");
  return lines.map(decoded);
}

/** Reads base64 that is written as it would be written again. */
function decoded(stated) {
  const content = atob(text(stated));
  check(btoa(content) === stated, "the base64 is not what it decodes to");
  return Uint8Array.from(content, (character) => character.charCodeAt(0));
}

function number(stated) {
  const isWhole = /^(0|[1-9][0-9]*)$/.test(text(stated)) && stated.length <= DIGITS_MAX;
  check(isWhole, "a number is not written as it should be");
  return BigInt(stated);
}

function object(stated) {
  const document = JSON.parse(text(stated));
  const isObject = typeof document === "object" && document !== null && !Array.isArray(document);
  check(isObject, "this is no JSON object");
  return document;
}

function encoded(stated) {
  check(!/\p{Surrogate}/u.test(text(stated)), "the text is not Unicode");
  return new TextEncoder().encode(stated);
}

function text(stated) {
  check(typeof stated === "string", "a text is missing");
  return stated;
}

function treeHead(size, root) {
  return `${size}:${hex(root)}`;
}

function hex(content) {
  return Array.from(content, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function isEqual(left, right) {
  return left.length === right.length && left.every((byte, place) => byte === right[place]);
}

function check(holds, message) {
  if (!holds) throw new ProofFileInvalid(message);
}

async function main(file, vkey) {
  const { readFile } = await import("node:fs/promises");
  try {
    process.stdout.write(`${JSON.stringify(await verified(await readFile(file), vkey), null, 2)}\n`);
    return 0;
  } catch (error) {
    process.stderr.write(`proof_invalid: ${error.message}\n`);
    return 1;
  }
}

/** Tells whether Node runs this file, and nothing imports it. */
async function isProgram(script) {
  if (!script) return false;
  const [{ realpath }, { fileURLToPath }] = await Promise.all([
    import("node:fs/promises"),
    import("node:url"),
  ]);
  const [own, started] = await Promise.all([realpath(fileURLToPath(import.meta.url)), realpath(script)]);
  return own === started;
}

const argv = globalThis.process?.argv ?? [];
if (await isProgram(argv[1])) {
  if (argv.length !== 4) process.stderr.write("node proof_file.mjs FILE VKEY\n");
  process.exitCode = argv.length === 4 ? await main(argv[2], argv[3]) : 2;
}
