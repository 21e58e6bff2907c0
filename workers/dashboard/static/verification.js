// Verifies in the reader's browser what a page shows, against the head of the log that this browser
// kept when it last looked, and says what came of it.
//
// Rules:
// 1. What a server says of itself counts for nothing: each check computes from the bytes of a proof.
// 2. A check holds, fails, or could not be made; the last is never shown as though it held.
// 3. A head and a policy are kept once everything about them holds, and never before.

import "./subtle.js";
import {
  checkConsistency,
  ProofFileInvalid,
  sealedReceipt,
  verified,
  verifiedUnder,
} from "./proof_file.mjs";

const { subtle } = globalThis.crypto;
const ANCHOR_VERB = "belief_anchor";

/** What was computed is not what is shown, or not what this browser kept. */
class Differs extends Error {}

/** A check that could not be made: the server refused, or there is nothing to check. */
class NotMade extends Error {}

const encoded = (text) => new TextEncoder().encode(text);
const unhex = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
const base64 = (text) => btoa(String.fromCharCode(...unhex(text)));
const clock = (stated) => `${stated.slice(0, 19).replace("T", " ")} UTC`;

async function digest(text) {
  const hash = new Uint8Array(await subtle.digest("SHA-256", encoded(text)));
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function expect(holds, message) {
  if (!holds) throw new Differs(message);
}

/** Writes JSON as it is hashed: names in order, no blanks (RFC 8785). */
function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const names = Object.keys(value).sort();
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join(",")}}`;
}

async function ask(base, path) {
  let response;
  try {
    response = await fetch(`${base}${path}`, { cache: "no-store" });
  } catch {
    throw new NotMade("the server does not answer");
  }
  const text = await response.text();
  if (response.ok) return text;
  let stated = {};
  try {
    stated = JSON.parse(text).error;
  } catch {
    // The refusal has another form; its number says enough.
  }
  throw new NotMade(`the server refuses: ${stated.code ?? response.status} ${stated.message ?? ""}`);
}

const askJson = async (base, path) => JSON.parse(await ask(base, path));
const headOf = (stated) => ({ size: BigInt(stated.tree_size), root: unhex(stated.root_hash) });

// ---- what this browser kept ----------------------------------------------------------------

const placeOf = (base) => `rotulus log ${new URL(`${base}/`, location.href).href}`;

/** Returns what this browser kept of the log at an address, null where it kept nothing. */
export function kept(base) {
  try {
    return JSON.parse(localStorage.getItem(placeOf(base)));
  } catch {
    return null;
  }
}

/** Forgets it: the next head is kept as the first one. */
export function forget(base) {
  localStorage.removeItem(placeOf(base));
}

// ---- checks of the log ---------------------------------------------------------------------

async function readHead(state) {
  const stated = await askJson(state.base, "/v1/tree");
  state.head = { ...headOf(stated), stated };
  const text = `${stated.tree_size} rows, root ${stated.root_hash.slice(0, 16)}\u2026; the checks below are under it`;
  return { result: "stated", text };
}

async function checkKept(state) {
  const { before, head } = state;
  if (before === null)
    return { result: "first", text: "kept for the first time: nothing to compare it with" };
  const [size, at] = [BigInt(before.tree_size), clock(before.kept_at)];
  const other = "; either the log was changed, or another log is served here now";
  expect(
    size <= head.size,
    `the log went back: it had ${size} rows at ${at} and has ${head.size} now${other}`,
  );
  const query = `/v1/tree/consistency/${size}?tree_size=${head.size}`;
  const path = size === head.size ? [] : (await askJson(state.base, query)).path.map(unhex);
  try {
    await checkConsistency(size, unhex(before.root_hash), head.size, head.root, path);
  } catch (error) {
    throw new Differs(
      `the log was rewritten: its first ${size} rows are not those of ${at}` +
        ` (${error.message})${other}`,
    );
  }
  return `the first ${size} rows are those that this browser kept at ${at}`;
}

async function checkSigned(state) {
  const { policy } = await askJson(state.base, "/v1/checkpoint");
  if (!/^log /m.test(policy ?? "") && !state.before?.policy)
    throw new NotMade("nobody signs this log: the server names no key of it");
  let note;
  try {
    note = await ask(state.base, "/checkpoint");
  } catch (error) {
    expect(!state.before?.policy, `nobody signs the log any more: ${error.message}`);
    throw new NotMade("nobody signs this log: no checkpoint is published");
  }
  const same = { format: "rotulus-proof/v1", kind: "consistency", path: [] };
  const content = encoded(JSON.stringify({ ...same, old_checkpoint: note, checkpoint: note }));
  const proved = await verified(content, [], encoded(policy ?? ""));
  const [size, root] = proved.tree_head.split(":");
  expect(
    BigInt(size) <= state.head.size,
    `its keys have signed ${size} rows, and the server shows ${state.head.size}`,
  );
  if (size !== String(state.head.size)) {
    const query = `/v1/tree/consistency/${size}?tree_size=${state.head.size}`;
    const { path } = await askJson(state.base, query);
    const { head } = state;
    await checkConsistency(BigInt(size), unhex(root), head.size, head.root, path.map(unhex));
  } else {
    expect(root === state.head.stated.root_hash, "its keys have signed another root");
  }
  const old = state.before?.policy ?? null;
  expect(
    old === null || old === policy,
    "the keys that count are not those that this browser kept: compare them with the operator's",
  );
  state.policy = policy;
  state.signed = BigInt(size);
  const untold = proved.not_verified.length
    ? `; this browser does not know the kind of ${proved.not_verified.join(", ")}`
    : "";
  return `${proved.origin} has signed the first ${size} rows; ${proved.message}${untold}`;
}

// ---- checks of what a page is about --------------------------------------------------------

/** Returns a proof as a proof file has it, but for the note. */
function documentOf(kind, { inclusion, ...shown }) {
  const place = BigInt(inclusion.ec_sequence_number) - 1n;
  const proof = ["c2sp.org/tlog-proof@v1", `index ${place}`, ...inclusion.path.map(base64), "", ""];
  return { kind, row: inclusion.row, tlog_proof: proof.join("\n"), ...shown };
}

/** Asks for a proof in the tree of the head. */
function inTree(state, path) {
  const sign = path.includes("?") ? "&" : "?";
  return askJson(state.base, `${path}${sign}tree_size=${state.head.size}`);
}

function sayRow(state, row) {
  const isSigned = state.signed !== undefined && BigInt(row.ec_sequence_number) <= state.signed;
  const signed = isSigned ? ", and among those that are signed" : "; no signature covers it yet";
  return `row ${row.ec_sequence_number} is in the log${signed}`;
}

async function checkOperation(state) {
  const name = encodeURIComponent(state.subject.id);
  const proof = await inTree(state, `/v1/tree/operations/${name}`);
  const found = await verifiedUnder(state.head, documentOf("operation", proof));
  expect(found.row.operation_id === state.subject.id, "the row is that of another operation");
  const row_hash = await digest(proof.inclusion.row);
  Object.assign(state.proved, { row: { ...found.row, row_hash }, envelope: found.envelope });
  return sayRow(state, found.row);
}

async function checkChain(state) {
  const { row } = provedOf(state, "row");
  const sequence = BigInt(row.ec_sequence_number);
  if (sequence === 1n) return "it is the first row, and follows 64 zeros";
  const inclusion = await inTree(state, `/v1/tree/inclusion/${sequence - 1n}`);
  const before = await verifiedUnder(state.head, documentOf("operation", { inclusion }));
  const isNext = BigInt(before.row.ec_sequence_number) === sequence - 1n;
  const prior = await digest(inclusion.row);
  expect(isNext && prior === row.prior_row_hash, "it does not follow the row before it");
  return `it follows row ${sequence - 1n}, by that row's hash`;
}

async function checkEnvelope(state) {
  provedOf(state, "row");
  if (!state.proved.envelope) throw new NotMade("the envelope was erased: its commitment is left");
  return "the row commits to the envelope that the server has";
}

async function checkEffects(state) {
  const { row } = provedOf(state, "row");
  const record = await askJson(state.base, `/v1/operations/${encodeURIComponent(state.subject.id)}`);
  const hash = await digest(canonical(record.effects));
  expect(hash === row.applied_effects_hash, "the effects are not those that the row commits to");
  state.proved.effects = record.effects;
  return `the row commits to ${record.effects.length} effects`;
}

async function checkOutcome(state) {
  const { id, queue, operation } = state.subject;
  if (operation) {
    const said = await checkOperation({ ...state, subject: { id: operation } });
    return `the operation that the server names as its outcome: ${said}`;
  }
  const [inQueue, name] = [queue, id].map(encodeURIComponent);
  const proof = await inTree(state, `/v1/queues/${inQueue}/requests/${name}/proof`);
  const found = await verifiedUnder(state.head, documentOf("request", proof64(proof)));
  expect(found.receipt.request_id === id, "the receipt is that of another request");
  state.proved.receipt = found.receipt;
  return `${found.receipt.outcome ?? "the outcome"}; its receipt is in the range of ${sayRow(state, found.row)}`;
}

async function checkAdmission(state) {
  const { id, queue, asked } = state.subject;
  if (asked) {
    const said = await checkOperation({ ...state, subject: { id: asked } });
    return `the operation that the server names as what asked for it: ${said}`;
  }
  const [inQueue, name] = [queue, id].map(encodeURIComponent);
  const proof = await inTree(state, `/v1/queues/${inQueue}/requests/${name}/proof?of=admission`);
  const { inclusion, envelope } = proof;
  const found = await verifiedUnder(state.head, documentOf("operation", { inclusion, envelope }));
  const receipt = await sealedReceipt(proof64(proof), found.envelope);
  const isOwn = receipt.receipt_kind === "work_requested" && receipt.request_id === id;
  expect(isOwn, "the receipt is that of another request");
  const row = { ...found.row, row_hash: await digest(inclusion.row) };
  Object.assign(state.proved, { row, receipt });
  return `asked for at ${clock(receipt.emitted_at)}; its receipt is in the range of ${sayRow(state, row)}`;
}

/** Returns a proof whose path of receipts is written as in a proof file. */
function proof64(proof) {
  return { ...proof, receipt_path: proof.receipt_path.map(base64) };
}

async function checkTrail(state) {
  const { id, first, count } = state.subject;
  if (count === "0") throw new NotMade("it has no entries");
  const name = encodeURIComponent(id);
  const path = `/v1/tree/sessions/${name}?first_event=${first}&limit=${count}`;
  const { events, ...proof } = await inTree(state, path);
  const { row, envelope } = await verifiedUnder(state.head, documentOf("operation", proof));
  expect(envelope.semantic_intent === ANCHOR_VERB, "the operation anchors no session");
  const anchors = envelope.primitive_effects[0].payload.sessions;
  const own = anchors.filter((anchor) => anchor.session_id === id);
  expect(own.length === 1, "the operation does not anchor this session");
  const documents = events.map((event) => JSON.parse(event));
  const hashes = await Promise.all(events.map(digest));
  const last = Number(first) + events.length - 1;
  const isLast = last === own[0].last_event_index && hashes.at(-1) === own[0].head_event_hash;
  expect(isLast, "the trail does not end as the operation says");
  documents.forEach((document, place) => {
    const follows = place === 0 || document.prev_event_hash === hashes[place - 1];
    expect(follows && document.session_id === id, "an entry does not follow the one before it");
  });
  if (first === "0") expect(/^0*$/.test(documents[0].prev_event_hash), "the first entry is missing");
  state.proved.events = documents.map((document, place) => ({
    ...document,
    event_hash: hashes[place],
  }));
  return `${events.length} entries end where row ${row.ec_sequence_number} anchors them; ${sayRow(state, row)}`;
}

async function checkLastRow(state) {
  const { sequence } = state.subject;
  if (sequence === "0") throw new NotMade("the log had no rows");
  const inclusion = await inTree(state, `/v1/tree/inclusion/${sequence}`);
  const { row } = await verifiedUnder(state.head, documentOf("operation", { inclusion }));
  state.proved.row = { ...row, row_hash: await digest(inclusion.row) };
  return sayRow(state, row);
}

/** Returns what was proved; where it was not, a check that takes it could not be made. */
function provedOf(state, name) {
  if (!state.proved[name]) throw new NotMade("its row was not proved");
  return state.proved;
}

const ABOUT = {
  operation: [
    ["Its row", checkOperation],
    ["The row before it", checkChain],
    ["Its envelope", checkEnvelope],
    ["Its effects", checkEffects],
  ],
  request: [
    ["Its outcome", checkOutcome],
    ["That it was asked for", checkAdmission],
  ],
  open_request: [
    ["That it was asked for", checkAdmission],
    ["The row before it", checkChain],
  ],
  session: [["Its trail", checkTrail]],
  record: [
    ["The last row", checkLastRow],
    ["The row before it", checkChain],
  ],
};

// ---- texts of the page ---------------------------------------------------------------------

/** Returns what stands at a path in what was proved. */
function valueAt(proved, path) {
  return path.split(".").reduce((inner, name) => inner?.[name], proved);
}

const MISLEADING = /[\p{Cc}\p{Cs}\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2064\u2066-\u2069\ufeff]/u;

/** Tells whether a page shows a value: it cuts long texts, and shows no characters that mislead. */
function shows(text, value) {
  const [shown, whole] = [Array.from(text), Array.from(String(value))];
  const isCut = shown.length < whole.length && shown.length > 1 && shown.at(-1) === "\u2026";
  if (isCut) shown.pop();
  const isSame = (each, place) =>
    each === whole[place] || (each === "\ufffd" && MISLEADING.test(whole[place] ?? ""));
  return (isCut || shown.length === whole.length) && shown.every(isSame);
}

// A count has its thousands set apart.
const ungrouped = (text) => text.replaceAll("\u202f", "");

// A time says its age by `shell.js`; what stands beside that is made here of what is compared.
const exactTime = (time) => `${time.slice(0, 10)} ${time.slice(11, 19)} UTC`;

async function compareTexts(state) {
  const wrong = [];
  let count = 0;
  for (const stated of state.elements) {
    const value = valueAt(state.proved, stated.dataset.proved);
    if (value === undefined) continue;
    // Beside an id stands what copies it.
    const element = stated.querySelector("code") ?? stated;
    count += 1;
    const time = stated.querySelector("time");
    if (time) time.dataset.exact = exactTime(time.dateTime);
    const text = time ? time.dateTime : element.textContent;
    const holds = shows(text, value) || (/^\d+$/.test(value) && shows(ungrouped(text), value));
    element.dataset.checked = holds ? "holds" : "fails";
    if (!holds) wrong.push(text.slice(0, 60));
  }
  expect(!wrong.length, `the page shows \u201c${wrong.join("\u201d, \u201c")}\u201d, and the record does not`);
  if (!count) throw new NotMade("nothing of it is proved by itself");
  return `${count} texts are what the record has; they are marked \u2713, the rest is what the server says`;
}

// ---- the whole -----------------------------------------------------------------------------

/**
 * Returns the checks of a page, in their order: each with its title, its result and its words.
 *
 * `subject` is what the page is about; `elements` are those whose text says where it is proved.
 */
export async function verifyPage(base, subject, elements) {
  const state = { base, subject, elements, before: kept(base), proved: {} };
  const checks = [];
  const make = async (title, check) => {
    try {
      const answer = await check(state);
      checks.push({ title, ...(answer.result ? answer : { result: "holds", text: answer }) });
    } catch (error) {
      const isFalse = error instanceof Differs || error instanceof ProofFileInvalid;
      const [result, text] = isFalse
        ? ["fails", error.message]
        : ["open", error instanceof NotMade ? error.message : `the answer has another form: ${error.message}`];
      checks.push({ title, result, text });
    }
  };
  await make("The head of the log", readHead);
  if (!state.head) return checks;
  await make("Since this browser last looked", checkKept);
  await make("Signatures and witnesses", checkSigned);
  const ofLog = checks.slice();
  for (const [title, check] of ABOUT[subject.kind] ?? []) await make(title, check);
  await make("Texts of this page", compareTexts);
  const isKept = ofLog[1].result !== "open" && ofLog.every(({ result }) => result !== "fails");
  if (isKept) keep(state);
  return checks;
}

function keep({ base, before, head, policy }) {
  const { tree_size, root_hash } = head.stated;
  const kept_at = new Date().toISOString();
  const text = { tree_size, root_hash, kept_at, policy: policy ?? before?.policy ?? null };
  try {
    localStorage.setItem(placeOf(base), JSON.stringify(text));
  } catch {
    // A browser that keeps nothing says at each visit that it is the first one.
  }
}
