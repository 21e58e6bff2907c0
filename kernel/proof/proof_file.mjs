// Verifies proof files by itself, in a page or under Node: copy this one file.
//
//     node proof_file.mjs FILE --vkey KEY ... [--policy POLICY]
//
//     import { verified, ProofFileInvalid } from "./proof_file.mjs";
//     const bytes = async (file) => new Uint8Array(await file.arrayBuffer());
//     const proved = await verified(await bytes(file), [vkey], await bytes(policy));
//
// It needs what browsers and Node 20 have (SubtleCrypto with SHA-256 and Ed25519) and imports
// nothing. `proof_file.py` beside it says what a proof file holds, where the keys have to come from,
// and what a policy is; what both take for a proof is the same to the byte. Signatures of ML-DSA-44
// need Node 24.7 or a browser that has them: elsewhere such a key that has to have signed is
// refused, and keys of a policy count as though they had not signed (`not_verified` names them).

export const FORMAT = "rotulus-proof/v1";
export const FILE_BYTES_MAX = 16 << 20;

const TLOG_PROOF = "c2sp.org/tlog-proof@v1";
const NOTE_BYTES_MAX = 64 << 10;
const POLICY_BYTES_MAX = 1 << 20;
const NAME_BYTES_MAX = 255;
const BLOB_DOMAIN = "rotulus/payload/v1\0";
const SALT_BYTES = 32;
const HASH_BYTES = 32;
/** Bounds that every reader of JSON has somewhere, drawn where all of them still read. */
const [DEPTH_MAX, TOKEN_CHARS_MAX] = [128, 400];
const NUMBER_MAX = (1n << 63n) - 1n;
const ANCHOR_VERB = "belief_anchor";
const ELIMINATE_VERB = "ELIMINATE";
const MANIFEST_RECEIPT = "binding_evaluation_manifest";
const FINALIZE_VERB = "merkle_finalize";
const SEAL_RECEIPT = "session_sealed";
const SEAL_FORMAT = "rotulus/session-seal/v1";
const ETA_ALGORITHM = "eta-dup-sha256-v1";
const THOUGHT_FORMAT = "rotulus/thought/v1";
const RECEIPTS_VERB = "receipts_seal";
const RANGE_RECEIPT = "receipts_sealed";
const OUTCOME_RECEIPTS = ["work_request_closed", "authority_recompute_dead_lettered"];
const SEAL_COUNTS = ["leaf_count", "first_sequence", "last_sequence", "round_number"];
const SEAL_TEXTS = [
  ...["format", "algorithm", "session_id", "task_id", "zeta_head", "eta_root", "rfc6962_root"],
  "sealed_at",
];

/** Kinds of key: over a text; over a time and a text; over a time and what a checkpoint states. */
const [ED25519, ED25519_COSIGNATURE, ML_DSA_44] = [1, 4, 6];
const LOG_KINDS = [ED25519, ML_DSA_44];
const WITNESS_KINDS = [ED25519_COSIGNATURE, ML_DSA_44];
const SIZES = {
  [ED25519]: { key: 32, time: 0, signature: 64 },
  [ED25519_COSIGNATURE]: { key: 32, time: 8, signature: 64 },
  [ML_DSA_44]: { key: 1312, time: 8, signature: 2420 },
};

const { subtle } = globalThis.crypto;

/** The file does not prove what it says. */
export class ProofFileInvalid extends Error {
  code = "proof_invalid";
}

/**
 * Returns what the bytes of a proof file prove, and the verdict on its checkpoint; throws
 * `ProofFileInvalid` where it is nothing. `vkeys` are keys of the log, each of which must have
 * signed; `policy` the bytes of a policy, or null.
 */
export async function verified(content, vkeys, policy = null) {
  try {
    check(content.length <= FILE_BYTES_MAX, "the file is too large");
    const document = object(utf8(content));
    check(document.format === FORMAT, `the format is not ${FORMAT}`);
    const kind = document.kind;
    check(typeof kind === "string" && Object.hasOwn(KINDS, kind), "the kind of proof is unknown");
    const members = ["format", "kind", ...MEMBERS[kind]];
    const isWhole = Object.keys(document).every((name) => members.includes(name));
    check(isWhole, "the file has other members");
    const known = await policyOf([vkeys ?? []].flat(), policy);
    return { verifies: true, kind, ...(await KINDS[kind](document, known)) };
  } catch (error) {
    if (error instanceof ProofFileInvalid) throw error;
    throw new ProofFileInvalid(`this is no proof file: ${error.message}`);
  }
}

/**
 * Returns what a proof file without a note proves under the head of a tree, `size` and `root`, which
 * the caller has from elsewhere; throws `ProofFileInvalid` where it is nothing.
 */
export async function verifiedUnder({ size, root }, document) {
  try {
    return await KINDS[document.kind](document, { head: { proved: {}, size, root } });
  } catch (error) {
    if (error instanceof ProofFileInvalid) throw error;
    throw new ProofFileInvalid(`this is no proof: ${error.message}`);
  }
}

/** What verifies a kind of proof file, and returns what it proves. */
const KINDS = {
  /** An operation is in the log; its envelope may be withheld. */
  async operation(document, policy) {
    const proved = await rowOf(document, policy);
    const opening = document.envelope ?? null;
    const envelope = opening === null ? null : await openedEnvelope(proved.row, opening);
    return { ...proved, envelope };
  },

  /** A tombstone of a belief session is in the log. */
  async elimination(document, policy) {
    const proved = await rowOf(document, policy);
    const event = await anchoredEvent(proved.row, document.envelope, document.events);
    check(event.verb === ELIMINATE_VERB, "the event is no elimination");
    return { ...proved, event };
  },

  /** A thought is in a session whose seal is in the log; its content may be withheld. */
  async thought(document, policy) {
    const proved = await rowOf(document, policy);
    const { seal, signed_by } = await sealOf(await openedEnvelope(proved.row, document.envelope));
    const record = await sealedThought(document, seal);
    const opening = document.content ?? null;
    const commitment = text(record.content_commitment);
    const content = opening === null ? null : await opened(commitment, opening);
    return { ...proved, thought: record, content, seal, signed_by };
  },

  /** A manifest of an evaluation cycle is in the log. */
  async manifest(document, policy) {
    const proved = await rowOf(document, policy);
    const effect = soleEffect(await openedEnvelope(proved.row, document.envelope));
    check(effect.receipt_subkind === MANIFEST_RECEIPT, "the operation states no manifest");
    return { ...proved, manifest: member(effect, "payload") };
  },

  /** The outcome of a request is in a range of receipts whose root is in the log. */
  async request(document, policy) {
    const proved = await rowOf(document, policy);
    const envelope = await openedEnvelope(proved.row, document.envelope);
    const receipt = await sealedReceipt(document, envelope);
    check(OUTCOME_RECEIPTS.includes(receipt.receipt_kind), "the receipt is no outcome");
    text(receipt.request_id);
    return { ...proved, receipt };
  },

  /** The log of a checkpoint goes on from that of an older one. */
  async consistency(document, policy) {
    const old = await checkpointOf(document.old_checkpoint, policy);
    const { proved, size, root } = await checkpointOf(document.checkpoint, policy);
    await checkConsistency(old.size, old.root, size, root, hashes(document.path));
    check(old.proved.origin === proved.origin, "the two checkpoints are of two logs");
    return { ...proved, old_tree_head: old.proved.tree_head };
  },
};

/** What a file of each kind may have besides its format and its kind. */
const MEMBERS = {
  operation: ["row", "tlog_proof", "envelope"],
  elimination: ["row", "tlog_proof", "envelope", "events"],
  thought: ["row", "tlog_proof", "envelope", "thought", "content", "eta_path", "rfc6962_path"],
  manifest: ["row", "tlog_proof", "envelope"],
  request: ["row", "tlog_proof", "envelope", "receipt", "receipt_path"],
  consistency: ["old_checkpoint", "checkpoint", "path"],
};

/** Returns whose log has a row, under which head, and what the row says. */
async function rowOf(document, policy) {
  const rowBytes = encoded(document.row);
  const { index, path, note } = tlogProof(text(document.tlog_proof));
  const { proved, size, root } = policy.head ?? (await checkpointOf(note, policy));
  await checkInclusion(await leafHash(rowBytes), index, size, path, root);
  const row = object(document.row);
  check(row.ec_sequence_number === String(index + 1n), "the row is that of another place");
  return { ...proved, row };
}

/** Returns the envelope of an opening, to which a row commits. */
async function openedEnvelope(row, opening) {
  return object(await opened(row.envelope_payload_blob_ref, opening));
}

/** Returns the text under a salted commitment. */
async function opened(commitment, opening) {
  const salt = unhex(opening.salt, SALT_BYTES);
  const content = encoded(opening.content);
  const framed = [encoded(BLOB_DOMAIN), salt, bigEndian(BigInt(content.length)), content];
  check(hex(await sha256(...framed)) === commitment, "the commitment is not to what is shown");
  return opening.content;
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
  check(Array.isArray(sessions), "the operation names no sessions");
  const anchors = sessions.filter((anchor) => member(anchor, "session_id") === sessionId);
  check(anchors.length === 1, "the operation does not anchor this session");
  const [anchor] = anchors;
  const bounds = [anchor.first_event_index, anchor.last_event_index];
  bounds.forEach(whole);
  check(events.length <= bounds[1] - bounds[0] + 1, "the operation anchors fewer events");
  documents.slice(1).forEach((document, place) => {
    check(document.prev_event_hash === eventHashes[place], "an event does not follow the one before");
    check(document.session_id === sessionId, "an event is of another session");
  });
  check(eventHashes.at(-1) === anchor.head_event_hash, "the operation anchors another event");
  return documents[0];
}

/** Returns the seal of a session that an operation states, and the keys that have signed it. */
async function sealOf(envelope) {
  const effect = soleEffect(envelope);
  const isSeal = effect.receipt_subkind === SEAL_RECEIPT;
  check(envelope.semantic_intent === FINALIZE_VERB && isSeal, "the operation is no seal");
  const { signatures, ...seal } = effect.payload;
  const names = [...SEAL_TEXTS, ...SEAL_COUNTS].sort();
  check(String(Object.keys(seal).sort()) === String(names), "a seal has other fields");
  for (const name of SEAL_TEXTS) text(seal[name]);
  for (const name of SEAL_COUNTS) whole(seal[name]);
  const isKnown = seal.format === SEAL_FORMAT && seal.algorithm === ETA_ALGORITHM;
  check(isKnown && Array.isArray(signatures), "the seal is of another form");
  const content = JSON.stringify(Object.fromEntries(names.map((name) => [name, seal[name]])));
  const signed = encoded(`${SEAL_FORMAT}\n${content}\n`);
  const signed_by = [];
  for (const { vkey, line } of signatures) signed_by.push(await signer(vkey, line, signed));
  return { seal, signed_by };
}

/** Returns the key that has signed a seal. */
async function signer(vkey, line, signed) {
  const key = await keyOf(vkey, [ED25519]);
  const { id, signature } = signatureLine(line);
  const isSigned = id === key.id && (await holds(key, signature, signed));
  check(isSigned === true, "the seal is not signed by a key that it names");
  return vkey;
}

/** Returns the record of a thought, which both trees of its session have at its place. */
async function sealedThought(document, seal) {
  const [stored, count] = [encoded(document.thought), BigInt(seal.leaf_count)];
  const record = object(document.thought);
  // The hashes of two nodes are 64 bytes: neither tree has an inner node that is a record.
  const isRecord = record.format === THOUGHT_FORMAT && stored.length > 2 * HASH_BYTES;
  check(isRecord, "this is no record of a thought");
  check(record.session_id === seal.session_id, "the thought is of another session");
  const place = BigInt(whole(record.sequence)) - 1n;
  const [etaPath, path] = [hashes(document.eta_path), hashes(document.rfc6962_path)];
  await checkEta(await sha256(stored), place, count, etaPath, unhex(seal.eta_root));
  await checkInclusion(await leafHash(stored), place, count, path, unhex(seal.rfc6962_root));
  return record;
}

/**
 * Returns a receipt, which the tree of a range has at its place; an operation states the root.
 *
 * The leaves are the hashes of the receipts, in their order.
 */
export async function sealedReceipt(document, envelope) {
  const effect = soleEffect(envelope);
  const isSeal = effect.receipt_subkind === RANGE_RECEIPT;
  check(envelope.semantic_intent === RECEIPTS_VERB && isSeal, "the operation is no seal");
  const [stated, stored] = [effect.payload, encoded(document.receipt)];
  const [first, last] = [stated.first_receipt, stated.last_receipt].map((value) => number(text(value)));
  const receipt = object(document.receipt);
  const [place, count] = [number(text(receipt.receipt_sequence)) - first, last - first + 1n];
  const leaf = await leafHash(await sha256(stored));
  await checkInclusion(leaf, place, count, hashes(document.receipt_path), unhex(stated.root_hash));
  return receipt;
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

/** Returns the verdict on a checkpoint that is signed by its log, its size and its root. */
async function checkpointOf(note, policy) {
  check(encoded(note).length <= NOTE_BYTES_MAX, "the note of the checkpoint is too large");
  const end = note.lastIndexOf("\n\n");
  const isNote = !/[^\n -\uffff]/.test(note) && end >= 0 && note.endsWith("\n") && end + 2 < note.length;
  check(isNote, "the note of the checkpoint has another form");
  const lines = note.slice(end + 2, -1).split("\n").map(signatureLine);
  const stated = { text: note.slice(0, end + 1) };
  const [origin, statedSize, statedRoot] = note.slice(0, end).split("\n");
  Object.assign(stated, { origin, size: number(statedSize), root: decoded(statedRoot) });
  const isTree = isEqual(stated.root, await sha256()) || stated.size > 0n;
  const originBytes = encoded(origin).length;
  const isStated = stated.root.length === HASH_BYTES && originBytes && originBytes <= NAME_BYTES_MAX;
  check(isTree && isStated, "the note is no checkpoint");
  const logs = policy.logs.filter((key) => key.name === origin);
  const times = await timesOf(lines, [...logs, ...policy.witnesses.values()], stated);
  const signed = logs.filter((key) => (times.get(key.id) ?? null) !== null);
  const isUntold = logs.some((key) => times.get(key.id) === null);
  const problem = isUntold
    ? "holds nothing of its log but ML-DSA-44, which cannot be verified here"
    : "is not signed by its log";
  const enough = policy.every ? policy.logs.length : 1;
  check(signed.length >= enough, `the checkpoint of ${origin} ${problem}`);
  const head = { origin, tree_head: `${stated.size}:${hex(stated.root)}` };
  return { proved: { ...head, ...verdictOf(policy, times) }, size: stated.size, root: stated.root };
}

/**
 * Returns the keys that have signed a checkpoint, by id, with their times; null where nobody can
 * tell. A line of a key that is known has to hold; those of others say nothing.
 */
async function timesOf(lines, keys, stated) {
  const known = new Map(keys.map((key) => [key.id, key]));
  const times = new Map();
  for (const { id, signature } of lines) {
    const key = known.get(id);
    if (key === undefined || times.has(id)) continue;
    const { time, signature: length } = SIZES[key.kind];
    const timeS = time ? BigInt(`0x0${hex(signature.slice(0, time))}`) : 0n;
    const isForm = signature.length === time + length && timeS <= NUMBER_MAX;
    check(isForm, `the signature of ${key.name} has another form`);
    const held = await holds(key, signature.slice(time), message(key, timeS, stated));
    check(held !== false, `the signature of ${key.name} does not fit the checkpoint`);
    times.set(id, held === null ? null : timeS);
  }
  return times;
}

/** Returns what a key of a kind signs of a checkpoint (C2SP signed-note, tlog-cosignature). */
function message(key, timeS, stated) {
  if (key.kind === ED25519) return encoded(stated.text);
  if (key.kind === ED25519_COSIGNATURE)
    return encoded(`cosignature/v1\ntime ${timeS}\n${stated.text}`);
  const [name, origin] = [key.name, stated.origin].map(encoded);
  const parts = [encoded("subtree/v1\n\0"), Uint8Array.of(name.length), name, bigEndian(timeS)];
  parts.push(Uint8Array.of(origin.length), origin, bigEndian(0n), bigEndian(stated.size));
  return joined([...parts, stated.root]);
}

/** Tells whether a key has signed a message, null where that cannot be verified here. */
async function holds(key, signature, signed) {
  const [format, name] = key.kind === ML_DSA_44 ? ["raw-public", "ML-DSA-44"] : ["raw", "Ed25519"];
  let imported;
  try {
    imported = await subtle.importKey(format, key.publicKey, { name }, false, ["verify"]);
  } catch (error) {
    if (key.kind === ML_DSA_44) return null;
    throw error;
  }
  return subtle.verify({ name }, imported, signature, signed);
}

/** Returns what a checkpoint is worth that its log has signed: witnessed or unwitnessed. */
function verdictOf(policy, times) {
  const witnesses = [...policy.witnesses].map(([name, key]) => [name, times.get(key.id) ?? null]);
  const cosigned = witnesses.filter(([, timeS]) => timeS !== null);
  const accepted = new Set(["none", ...cosigned.map(([name]) => name)]);
  for (const [name, { enough, members }] of policy.groups)
    if (members.filter((member) => accepted.has(member)).length >= enough) accepted.add(name);
  const quorum_met = accepted.has(policy.quorum);
  const isWitnessed = quorum_met && cosigned.length > 0;
  const count = `${cosigned.length} of ${witnesses.length}`;
  const keys = [...policy.logs, ...policy.witnesses.values()];
  const untold = keys.filter((key) => times.get(key.id) === null).map((key) => key.name);
  return {
    verdict: isWitnessed ? "witnessed" : "unwitnessed",
    message: isWitnessed ? `witnessed ${count}` : `consistent but unwitnessed (${count})`,
    witnesses: cosigned.map(([name, timeS]) => ({ name: shown(name), time_s: String(timeS) })),
    witnesses_known: witnesses.length,
    quorum_met,
    not_verified: [...new Set(untold)].sort(),
  };
}

/** Returns by which key a line below a note is, as name and id, and the signature. */
function signatureLine(line) {
  const [, name, stated] = /^\u2014 ([^ ]*) (.*)$/.exec(text(line)) ?? [];
  const signature = decoded(stated);
  check(isName(name) && signature.length > 4, "a line below the note is no signature");
  return { id: `${name}+${hex(signature.slice(0, 4))}`, signature: signature.slice(4) };
}

async function keyOf(vkey, kinds) {
  const line = trimmed(text(vkey), " \t\r\n");
  const [, name, keyId, stated] = /^([^+]*)\+([^+]*)\+([^]*)$/.exec(line) ?? [];
  const key = decoded(stated);
  const ownId = hex((await sha256(encoded(`${name}\n`), key)).slice(0, 4));
  const isKind = kinds.includes(key[0]) && key.length === 1 + SIZES[key[0]].key;
  const isKey = isKind && isName(name) && ownId === keyId;
  check(isKey, `${name} is no key of a note of a kind that signs this`);
  return { id: `${name}+${ownId}`, name, kind: key[0], publicKey: key.slice(1) };
}

/** What no name of a key has: blanks, a plus, what is not seen; see `proof_file.py`. */
const NO_NAME = new RegExp(
  "[\\x00-\\x20+\\x7f-\\xa0\\xad\\u0600-\\u0605\\u061c\\u06dd\\u070f\\u0890\\u0891\\u08e2\\u1680" +
    "\\u180e\\u2000-\\u200f\\u2028-\\u202f\\u205f-\\u206f\\u3000\\ud800-\\uf8ff\\ufeff" +
    "\\ufff9-\\ufffb\\u{e0000}-\\u{e0fff}]",
  "u",
);

function isName(name) {
  const length = encoded(name).length;
  return length > 0 && length <= NAME_BYTES_MAX && !NO_NAME.test(name);
}

/** Returns whose signatures count: the logs of some keys or else of the policy, its witnesses. */
async function policyOf(vkeys, content) {
  check(vkeys.length > 0 || content !== null, "a key of the log or a policy is needed");
  const nobody = { logs: [], every: false, witnesses: new Map(), groups: new Map(), quorum: "none" };
  const policy = content === null ? nobody : await readPolicy(content);
  if (vkeys.length === 0) return policy;
  const logs = [];
  for (const vkey of vkeys) logs.push(await keyOf(vkey, LOG_KINDS));
  return { ...policy, logs, every: true };
}

/** Reads a file of C2SP tlog-policy, whose names are octets: a character stands for each here. */
async function readPolicy(content) {
  const octets = Array.from(content, (byte) => String.fromCharCode(byte)).join("");
  const isText = content.length <= POLICY_BYTES_MAX && !/[^\t\n -~\x80-\xff]/.test(octets);
  check(isText, "the policy is too large, or holds a control character");
  const [logs, quorums, witnesses, groups] = [[], [], new Map(), new Map()];
  for (const line of octets.split("\n")) {
    const [keyword, ...values] = trimmed(line, " \t").split(/[ \t]+/);
    if (keyword === "" || keyword.startsWith("#")) continue;
    const [name, ...rest] = values;
    const isNamed = name === "none" || witnesses.has(name) || groups.has(name);
    if (keyword === "log") {
      logs.push(await policyKey(values, LOG_KINDS));
    } else if (keyword === "witness" && values.length > 0 && !isNamed) {
      witnesses.set(name, await policyKey(rest, WITNESS_KINDS));
    } else if (keyword === "group" && values.length > 2 && !isNamed) {
      groups.set(name, groupOf(rest, new Set([...witnesses.keys(), ...groups.keys()]), groups));
    } else {
      check(keyword === "quorum" && values.length === 1 && isNamed, "a line of the policy says nothing");
      quorums.push(name);
    }
  }
  const keys = [...logs, ...witnesses.values()].map((key) => hex(key.publicKey));
  check(keys.length === new Set(keys).size, "the policy has a key twice");
  check(quorums.length === 1, "a policy has one quorum");
  return { logs, every: false, witnesses, groups, quorum: quorums[0] };
}

async function policyKey(values, kinds) {
  const isLine = values.length === 1 || values.length === 2;
  check(isLine, "a line of the policy states a key, and a URL or nothing");
  return keyOf(utf8(octetsOf(values[0])), kinds);
}

/** Returns how many of which members are enough; nobody is a member twice. */
function groupOf([enough, ...members], known, groups) {
  const taken = [...[...groups.values()].flatMap((group) => group.members), ...members];
  const isWhole = members.every((name) => known.has(name)) && taken.length === new Set(taken).size;
  const isNumber = /^(any|all|[1-9][0-9]{0,5})$/.test(enough);
  check(isWhole && isNumber, "a group of the policy is of another form");
  const count = { any: 1, all: members.length }[enough] ?? Number(enough);
  check(count <= members.length, "a group of the policy has fewer members than are enough");
  return { enough: count, members };
}

function octetsOf(octets) {
  return Uint8Array.from(octets, (character) => character.charCodeAt(0));
}

/** Returns a name of a policy as it is shown. */
function shown(name) {
  return new TextDecoder().decode(octetsOf(name));
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

/**
 * Checks that a session's tree, whose last node of an odd level stands twice, has a leaf. The count
 * has to come from the session's seal: the root does not bind it.
 */
export async function checkEta(leaf, place, count, path, root) {
  check(0n <= place && place < count, `a session of ${count} thoughts has no thought ${place + 1n}`);
  checkHashes(path);
  let [node, width] = [leaf, count];
  for (const sibling of path) {
    check(width > 1n, "the path is too long");
    const isAlone = place === width - 1n && (width & 1n) === 1n;
    check(isEqual(sibling, node) === isAlone, "a node has another sibling than its place gives it");
    node = await (place & 1n ? sha256(sibling, node) : sha256(node, sibling));
    [place, width] = [place >> 1n, (width + 1n) >> 1n];
  }
  check(width === 1n, "the path is too short");
  check(isEqual(node, root), "the path leads to another root");
}

/** Returns the hash of a leaf. */
export function leafHash(rowBytes) {
  return sha256(Uint8Array.of(0), rowBytes);
}

function nodeHash(left, right) {
  return sha256(Uint8Array.of(1), left, right);
}

async function sha256(...parts) {
  return new Uint8Array(await subtle.digest("SHA-256", joined(parts)));
}

function joined(parts) {
  const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let place = 0;
  for (const part of parts) {
    whole.set(part, place);
    place += part.length;
  }
  return whole;
}

function bigEndian(value) {
  const content = new Uint8Array(8);
  new DataView(content.buffer).setBigUint64(0, value);
  return content;
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
  const isWhole = /^(0|[1-9][0-9]*)$/.test(text(stated)) && stated.length <= 19;
  check(isWhole && BigInt(stated) <= NUMBER_MAX, "a number is not written as it should be");
  return BigInt(stated);
}

/** Returns a number of JSON that every reader takes for the same whole number. */
function whole(value) {
  check(Number.isSafeInteger(value), "a count is no whole number");
  return value;
}

function unhex(stated, length = HASH_BYTES) {
  const isHex = /^[0-9a-f]*$/.test(text(stated)) && stated.length === 2 * length;
  check(isHex, `${length} bytes in lower-case hex are expected`);
  return Uint8Array.from(stated.match(/../g), (pair) => parseInt(pair, 16));
}

function utf8(content) {
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content);
}

function object(stated) {
  checkBounds(text(stated));
  const document = JSON.parse(stated);
  const isObject = typeof document === "object" && document !== null && !Array.isArray(document);
  check(isObject, "this is no JSON object");
  return document;
}

/** Checks what one reader of JSON would refuse and another would not. */
function checkBounds(stated) {
  let depth = 0;
  const bare = stated.replace(/"[^"\\]*(?:\\[^][^"\\]*)*"?/g, "");
  for (const [token] of bare.matchAll(/[[\]{}]|[^[\]{},: \t\n\r]+/g)) {
    depth += "[{".includes(token) - "]}".includes(token);
    const isBounded = depth <= DEPTH_MAX && token.length <= TOKEN_CHARS_MAX;
    check(isBounded, "the JSON is nested too deep, or a number is too long");
  }
}

/** Returns a text without the blanks at both its ends; a pattern would try each blank within. */
function trimmed(stated, blanks) {
  let [start, end] = [0, stated.length];
  while (start < end && blanks.includes(stated[start])) start += 1;
  while (end > start && blanks.includes(stated[end - 1])) end -= 1;
  return stated.slice(start, end);
}

/** Returns a member of an object, which has it as its own. */
function member(value, name) {
  check(typeof value === "object" && Object.hasOwn(value, name), `${name} is missing`);
  return value[name];
}

function encoded(stated) {
  check(!/\p{Surrogate}/u.test(text(stated)), "the text is not Unicode");
  return new TextEncoder().encode(stated);
}

function text(stated) {
  check(typeof stated === "string", "a text is missing");
  return stated;
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

async function main(args) {
  const { readFile } = await import("node:fs/promises");
  const { parseArgs } = await import("node:util");
  let stated;
  try {
    const options = { policy: { type: "string" }, vkey: { type: "string", multiple: true } };
    stated = parseArgs({ args, allowPositionals: true, options });
  } catch {
    stated = { positionals: [] };
  }
  const [file, ...more] = stated.positionals;
  if (file === undefined || more.length) {
    process.stderr.write("node proof_file.mjs FILE --vkey KEY ... [--policy POLICY]\n");
    return 2;
  }
  try {
    const policy = stated.values.policy === undefined ? null : await readFile(stated.values.policy);
    const proved = await verified(await readFile(file), stated.values.vkey ?? [], policy);
    process.stdout.write(`${JSON.stringify(proved, null, 2)}\n`);
    return proved.quorum_met ? 0 : 1;
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
if (await isProgram(argv[1])) process.exitCode = await main(argv.slice(2));
