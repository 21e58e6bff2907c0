"""Verifies proof files by itself: copy this one file to where nothing of Rotulus is.

    python proof_file.py FILE --vkey KEY ... [--policy POLICY]

It needs Python 3.11 and `cryptography`, and imports nothing of ours; `proof_file.mjs` beside it
does the same in a browser or under Node. Both take the same bytes for a proof.

A proof file is a JSON object. All kinds but `consistency` hold the stored bytes of a row of the log
and a proof that the row is in the log (C2SP tlog-proof, with a signed checkpoint inside). Where it
is shown they hold the envelope to which the row commits, with its salt. `KINDS` has what a kind
proves of the envelope. The keys of the log (`rotulus checkpoint key` printed them) have to come
from elsewhere: whoever made the file could have made keys as well. Of several each must have
signed. A policy (C2SP tlog-policy) says whose cosignatures count and how many are enough; without
KEY its lines `log` name the keys of the log.

Signatures of ML-DSA-44 need `cryptography` 47. Where it is older a key of that kind that has to
have signed is refused; keys of a policy count as though they had not signed, and `not_verified`
names them (decision kernel/0466).
"""

import argparse
import base64
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

try:
    from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PublicKey
except ImportError:
    MLDSA44PublicKey = None  # type: ignore[assignment,misc]

FORMAT = "rotulus-proof/v1"
TLOG_PROOF = "c2sp.org/tlog-proof@v1"
FILE_BYTES_MAX = 16 << 20
NOTE_BYTES_MAX = 64 << 10
POLICY_BYTES_MAX = 1 << 20
NAME_BYTES_MAX = 255
BLOB_DOMAIN = b"rotulus/payload/v1\x00"
SALT_BYTES = 32
EMPTY_ROOT = sha256(b"").digest()

ANCHOR_VERB = "belief_anchor"
ELIMINATE_VERB = "ELIMINATE"
MANIFEST_RECEIPT = "binding_evaluation_manifest"
FINALIZE_VERB = "merkle_finalize"
SEAL_RECEIPT = "session_sealed"
SEAL_FORMAT = "rotulus/session-seal/v1"
ETA_ALGORITHM = "eta-dup-sha256-v1"
THOUGHT_FORMAT = "rotulus/thought/v1"
SEAL_TEXTS = (
    "format", "algorithm", "session_id", "task_id", "zeta_head", "eta_root", "rfc6962_root",
    "sealed_at",
)  # fmt: skip
SEAL_COUNTS = ("leaf_count", "first_sequence", "last_sequence", "round_number")

RECEIPTS_VERB = "receipts_seal"
RANGE_RECEIPT = "receipts_sealed"
OUTCOME_RECEIPTS = ("work_request_closed", "authority_recompute_dead_lettered")

ED25519, ED25519_COSIGNATURE, ML_DSA_44 = 1, 4, 6
"""Kinds of key: over a text; over a time and a text; over a time and what a checkpoint states."""

LOG_KINDS, WITNESS_KINDS = (ED25519, ML_DSA_44), (ED25519_COSIGNATURE, ML_DSA_44)

_KEY_BYTES = {ED25519: 32, ED25519_COSIGNATURE: 32, ML_DSA_44: 1312}
_SIGNATURE_BYTES = {ED25519: 64, ED25519_COSIGNATURE: 64, ML_DSA_44: 2420}
_TIME_BYTES = {ED25519: 0, ED25519_COSIGNATURE: 8, ML_DSA_44: 8}
_HASH_BYTES = 32
_DEPTH_MAX, _TOKEN_CHARS_MAX = 128, 400
"""Bounds that every reader of JSON has somewhere, drawn where all of them still read."""

_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_NUMBER_MAX = (1 << 63) - 1
_SAFE_MAX = (1 << 53) - 1
_NO_NAME = re.compile(
    "[\x00-\x20+\x7f-\xa0\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u1680\u180e"
    "\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ud800-\uf8ff\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e0fff]"
)
"""What no name of a key has: blanks, a plus, what is not seen. They are listed, because the tables
of Unicode grow, and an older one would refuse what a newer one takes."""

_POLICY_OCTETS = bytes({0x09, 0x0A, *range(0x20, 0x7F), *range(0x80, 0x100)})


class ProofFileInvalid(Exception):
    """The file does not prove what it says."""

    code = "proof_invalid"


class Key(NamedTuple):
    """The public half of a key under which notes are signed."""

    name: str
    kind: int
    public_key: bytes
    key_id: bytes


class Policy(NamedTuple):
    """Whose signatures count."""

    logs: Sequence[Key]
    every: bool
    """Whether each key of the log must have signed, or one of them."""

    witnesses: Mapping[str, Key]
    groups: Mapping[str, tuple[int, Sequence[str]]]
    """In their order: how many of which members are enough."""

    quorum: str


def verify_proof_file(content: bytes, *vkeys: str, policy: bytes | None = None) -> dict[str, Any]:
    """Return what a proof file proves, and the verdict on its checkpoint.

    Raises:
        ProofFileInvalid: it proves nothing, or a key or the policy is none.
    """
    try:
        _check(len(content) <= FILE_BYTES_MAX, "the file is too large")
        document = _object(content.decode())
        _check(document["format"] == FORMAT, f"the format is not {FORMAT}")
        kind = document["kind"]
        _check(isinstance(kind, str) and kind in KINDS, "the kind of proof is unknown")
        _check(document.keys() <= {"format", "kind", *MEMBERS[kind]}, "the file has other members")
        return {"verifies": True, "kind": kind} | KINDS[kind](document, _policy(vkeys, policy))
    except ProofFileInvalid:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ProofFileInvalid(f"this is no proof file: {error}") from error


def _operation(document: dict[str, Any], policy: Policy) -> dict[str, Any]:
    """An operation is in the log; its envelope may be withheld."""
    proved, row = _row(document, policy)
    opening = document.get("envelope")
    return proved | {"envelope": None if opening is None else open_envelope(row, opening)}


def _elimination(document: dict[str, Any], policy: Policy) -> dict[str, Any]:
    """A tombstone of a belief session is in the log."""
    proved, row = _row(document, policy)
    event = read_anchored_event(row, document["envelope"], document["events"])
    _check(event["verb"] == ELIMINATE_VERB, "the event is no elimination")
    return proved | {"event": event}


def _thought(document: dict[str, Any], policy: Policy) -> dict[str, Any]:
    """A thought is in a session whose seal is in the log; its content may be withheld."""
    proved, row = _row(document, policy)
    seal, signed_by = _seal(open_envelope(row, document["envelope"]))
    record, opening = _read_sealed_thought(document, seal), document.get("content")
    commitment = record["content_commitment"]
    _check(isinstance(commitment, str), "a text is missing")
    content = None if opening is None else _text_under(commitment, opening, "the thought")
    return proved | {"thought": record, "content": content, "seal": seal, "signed_by": signed_by}


def _manifest(document: dict[str, Any], policy: Policy) -> dict[str, Any]:
    """A manifest of an evaluation cycle is in the log."""
    proved, row = _row(document, policy)
    effect = _sole_effect(open_envelope(row, document["envelope"]))
    _check(effect["receipt_subkind"] == MANIFEST_RECEIPT, "the operation states no manifest")
    return proved | {"manifest": effect["payload"]}


def _request(document: dict[str, Any], policy: Policy) -> dict[str, Any]:
    """The outcome of a request is in a range of receipts whose root is in the log."""
    proved, row = _row(document, policy)
    receipt = _read_sealed_receipt(document, open_envelope(row, document["envelope"]))
    is_outcome = receipt["receipt_kind"] in OUTCOME_RECEIPTS
    _check(is_outcome and isinstance(receipt["request_id"], str), "the receipt is no outcome")
    return proved | {"receipt": receipt}


def _consistency(document: dict[str, Any], policy: Policy) -> dict[str, Any]:
    """The log of a checkpoint goes on from that of an older one."""
    old, old_size, old_root = _checkpoint(document["old_checkpoint"], policy)
    proved, size, root = _checkpoint(document["checkpoint"], policy)
    check_consistency(old_size, old_root, size, root, _hashes(document["path"]))
    _check(old["origin"] == proved["origin"], "the two checkpoints are of two logs")
    return proved | {"old_tree_head": old["tree_head"]}


KINDS: Mapping[str, Callable[[dict[str, Any], Policy], dict[str, Any]]] = {
    "operation": _operation,
    "elimination": _elimination,
    "thought": _thought,
    "manifest": _manifest,
    "request": _request,
    "consistency": _consistency,
}
"""What verifies a kind of proof file, and returns what it proves."""

MEMBERS: Mapping[str, Sequence[str]] = {
    "operation": ("row", "tlog_proof", "envelope"),
    "elimination": ("row", "tlog_proof", "envelope", "events"),
    "thought": (
        *("row", "tlog_proof", "envelope"),
        *("thought", "content", "eta_path", "rfc6962_path"),
    ),
    "manifest": ("row", "tlog_proof", "envelope"),
    "request": ("row", "tlog_proof", "envelope", "receipt", "receipt_path"),
    "consistency": ("old_checkpoint", "checkpoint", "path"),
}
"""What a file of each kind may have besides its format and its kind."""


def _row(document: dict[str, Any], policy: Policy) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return whose log has a row, under which head, and what the row says."""
    row_bytes = document["row"].encode()
    index, path, note = _tlog_proof(document["tlog_proof"])
    proved, size, root = _checkpoint(note, policy)
    check_inclusion(sha256(b"\x00" + row_bytes).digest(), index, size, path, root)
    row = _object(row_bytes.decode())
    _check(row["ec_sequence_number"] == str(index + 1), "the row is that of another place")
    return proved | {"row": row}, row


def open_envelope(row: dict[str, Any], opening: dict[str, str]) -> dict[str, Any]:
    """Return the envelope of an opening, to which a row commits.

    Raises:
        ProofFileInvalid: the row commits to another one.
    """
    return _object(_text_under(row["envelope_payload_blob_ref"], opening, "the envelope"))


def _text_under(commitment: str, opening: dict[str, str], name: str) -> str:
    """Return the text under a salted commitment."""
    salt, content = _hex(opening["salt"], SALT_BYTES), opening["content"].encode()
    framed = BLOB_DOMAIN + salt + len(content).to_bytes(8, "big") + content
    is_opened = sha256(framed).hexdigest() == commitment
    _check(is_opened, f"the commitment is not to what is shown as {name}")
    return content.decode()


def read_anchored_event(
    row: dict[str, Any], opening: dict[str, str], events: Sequence[str]
) -> dict[str, Any]:
    """Return the first of some events of a belief session, which an operation anchors.

    `events` are the bytes that are hashed of it and of all that follow it up to the head that the
    operation names; each holds the hash of the one before.

    Raises:
        ProofFileInvalid: the row's operation does not anchor them.
    """
    envelope = open_envelope(row, opening)
    _check(envelope["semantic_intent"] == ANCHOR_VERB, "the operation anchors no session")
    _check(isinstance(events, list), "no event is shown")
    documents = [_object(event) for event in events]
    hashes = [sha256(event.encode()).hexdigest() for event in events]
    _check(len(documents) > 0, "no event is shown")
    session_id = documents[0]["session_id"]
    _check(isinstance(session_id, str), "a text is missing")
    sessions = _sole_effect(envelope)["payload"]["sessions"]
    _check(isinstance(sessions, list), "the operation names no sessions")
    anchors = [anchor for anchor in sessions if anchor["session_id"] == session_id]
    _check(len(anchors) == 1, "the operation does not anchor this session")
    [anchor] = anchors
    anchored = _whole(anchor["last_event_index"]) - _whole(anchor["first_event_index"]) + 1
    _check(len(events) <= anchored, "the operation anchors fewer events")
    for document, before in zip(documents[1:], hashes, strict=False):
        _check(document["prev_event_hash"] == before, "an event does not follow the one before")
        _check(document["session_id"] == session_id, "an event is of another session")
    _check(hashes[-1] == anchor["head_event_hash"], "the operation anchors another event")
    return documents[0]


def _seal(envelope: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the seal of a session that an operation states, and the keys that have signed it."""
    effect = _sole_effect(envelope)
    is_seal = effect["receipt_subkind"] == SEAL_RECEIPT
    _check(envelope["semantic_intent"] == FINALIZE_VERB and is_seal, "the operation is no seal")
    signatures, seal = effect["payload"]["signatures"], dict(effect["payload"])
    del seal["signatures"]
    _check(seal.keys() == {*SEAL_TEXTS, *SEAL_COUNTS}, "a seal has other fields")
    _check(all(isinstance(seal[name], str) for name in SEAL_TEXTS), "a text is missing")
    seal |= {name: _whole(seal[name]) for name in SEAL_COUNTS}
    is_known = (seal["format"], seal["algorithm"]) == (SEAL_FORMAT, ETA_ALGORITHM)
    _check(is_known and isinstance(signatures, list), "the seal is of another form")
    content = json.dumps(seal, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    text = f"{SEAL_FORMAT}\n{content}\n".encode()
    return seal, [_signer(stated["vkey"], stated["line"], text) for stated in signatures]


def _signer(vkey: str, line: str, text: bytes) -> str:
    """Return the key that has signed a seal."""
    key = _key(vkey, (ED25519,))
    name, key_id, signature = _signature_line(line)
    is_signed = (name, key_id) == (key.name, key.key_id) and _holds(key, signature, text)
    _check(is_signed is True, "the seal is not signed by a key that it names")
    return vkey


def _read_sealed_thought(document: dict[str, Any], seal: dict[str, Any]) -> dict[str, Any]:
    """Return the record of a thought, which both trees of its session have at its place."""
    stored, count = document["thought"].encode(), seal["leaf_count"]
    record = _object(stored.decode())
    # The hashes of two nodes are 64 bytes: neither tree has an inner node that is a record.
    is_record = record["format"] == THOUGHT_FORMAT and len(stored) > 2 * _HASH_BYTES
    _check(is_record, "this is no record of a thought")
    _check(record["session_id"] == seal["session_id"], "the thought is of another session")
    place = _whole(record["sequence"]) - 1
    eta_path, path = _hashes(document["eta_path"]), _hashes(document["rfc6962_path"])
    check_eta(sha256(stored).digest(), place, count, eta_path, _hex(seal["eta_root"]))
    leaf, root = sha256(b"\x00" + stored).digest(), _hex(seal["rfc6962_root"])
    check_inclusion(leaf, place, count, path, root)
    return record


def _read_sealed_receipt(document: dict[str, Any], envelope: dict[str, Any]) -> dict[str, Any]:
    """Return a receipt, which the tree of a range has at its place; an operation states the root.

    The leaves are the hashes of the receipts, in their order.
    """
    effect = _sole_effect(envelope)
    is_seal = effect["receipt_subkind"] == RANGE_RECEIPT
    _check(envelope["semantic_intent"] == RECEIPTS_VERB and is_seal, "the operation is no seal")
    stated, stored = effect["payload"], document["receipt"].encode()
    first, last = _number(stated["first_receipt"]), _number(stated["last_receipt"])
    receipt = _object(stored.decode())
    place, count = _number(receipt["receipt_sequence"]) - first, last - first + 1
    leaf = sha256(b"\x00" + sha256(stored).digest()).digest()
    path = _hashes(document["receipt_path"])
    check_inclusion(leaf, place, count, path, _hex(stated["root_hash"]))
    return receipt


def _sole_effect(envelope: dict[str, Any]) -> dict[str, Any]:
    effects = envelope["primitive_effects"]
    _check(isinstance(effects, list) and len(effects) == 1, "the envelope has other effects")
    effect: dict[str, Any] = effects[0]
    return effect


def _tlog_proof(text: str) -> tuple[int, list[bytes], str]:
    head, mark, note = text.partition("\n\n")
    first, index, *path = head.split("\n")
    _check(bool(mark) and first == TLOG_PROOF, f"the proof is no {TLOG_PROOF}")
    if index.startswith("extra "):
        index, *path = path
    _check(index.startswith("index "), "the proof names no index")
    return _number(index.removeprefix("index ")), _hashes(path), note


def _checkpoint(note: str, policy: Policy) -> tuple[dict[str, Any], int, bytes]:
    """Return the verdict on a checkpoint that is signed by its log, its size and its root."""
    _check(len(note.encode()) <= NOTE_BYTES_MAX, "the note of the checkpoint is too large")
    is_text = all(character >= " " or character == "\n" for character in note)
    text, mark, below = note.rpartition("\n\n")
    is_signed = is_text and mark and below.endswith("\n")
    _check(bool(is_signed), "the note of the checkpoint has another form")
    text += "\n"
    lines = [_signature_line(line) for line in below[:-1].split("\n")]
    origin, stated_size, stated_root, *_ = text[:-1].split("\n")
    size, root = _number(stated_size), _decode_base64(stated_root)
    is_tree = len(root) == _HASH_BYTES and (size > 0 or root == EMPTY_ROOT)
    _check(is_tree and 0 < len(origin.encode()) <= NAME_BYTES_MAX, "the note is no checkpoint")
    logs = [key for key in policy.logs if key.name == origin]
    stated = (text, origin, size, root)
    times = _times(lines, [*logs, *policy.witnesses.values()], stated)
    signed = [key for key in logs if times.get(key) is not None]
    is_untold = any(key in times for key in logs if key not in signed)
    problem = "holds nothing of its log but ML-DSA-44, which cannot be verified here"
    problem = problem if is_untold else "is not signed by its log"
    enough = len(policy.logs) if policy.every else 1
    _check(len(signed) >= enough, f"the checkpoint of {origin!r} {problem}")
    verdict = _verdict(policy, times)
    return {"origin": origin, "tree_head": f"{size}:{root.hex()}"} | verdict, size, root


def _times(
    lines: Sequence[tuple[str, bytes, bytes]],
    keys: Sequence[Key],
    stated: tuple[str, str, int, bytes],
) -> dict[Key, int | None]:
    """Return the keys that have signed a checkpoint with their times, None where nobody can tell.

    A line of a key that is known has to hold; those of others say nothing.
    """
    by_id = {(key.name, key.key_id): key for key in keys}
    times: dict[Key, int | None] = {}
    for name, key_id, signature in lines:
        key = by_id.get((name, key_id))
        if key is None or key in times:
            continue
        time, raw = signature[: _TIME_BYTES[key.kind]], signature[_TIME_BYTES[key.kind] :]
        time_s = int.from_bytes(time, "big")
        is_form = len(raw) == _SIGNATURE_BYTES[key.kind] and time_s <= _NUMBER_MAX
        _check(is_form, f"the signature of {name} has another form")
        holds = _holds(key, raw, _message(key, time_s, *stated))
        _check(holds is not False, f"the signature of {name} does not fit the checkpoint")
        times[key] = None if holds is None else time_s
    return times


def _message(key: Key, time_s: int, text: str, origin: str, size: int, root: bytes) -> bytes:
    """Return what a key of a kind signs of a checkpoint (C2SP signed-note, tlog-cosignature)."""
    if key.kind == ED25519:
        return text.encode()
    if key.kind == ED25519_COSIGNATURE:
        return f"cosignature/v1\ntime {time_s}\n{text}".encode()
    names = [bytes([len(name.encode())]) + name.encode() for name in (key.name, origin)]
    time, end = time_s.to_bytes(8, "big"), size.to_bytes(8, "big")
    return b"subtree/v1\n\x00" + names[0] + time + names[1] + bytes(8) + end + root


def _holds(key: Key, signature: bytes, message: bytes) -> bool | None:
    """Tell whether a key has signed a message, None where that cannot be verified here."""
    algorithm = MLDSA44PublicKey if key.kind == ML_DSA_44 else Ed25519PublicKey
    if algorithm is None:
        return None
    try:
        algorithm.from_public_bytes(key.public_key).verify(signature, message)
    except UnsupportedAlgorithm:
        return None
    except (InvalidSignature, ValueError):
        return False
    return True


def _verdict(policy: Policy, times: Mapping[Key, int | None]) -> dict[str, Any]:
    """Return what a checkpoint is worth that its log has signed: witnessed or unwitnessed."""
    witnesses = {name: times.get(key) for name, key in policy.witnesses.items()}
    cosigned = [name for name, time_s in witnesses.items() if time_s is not None]
    accepted = {"none", *cosigned}
    for name, (enough, members) in policy.groups.items():
        if sum(member in accepted for member in members) >= enough:
            accepted.add(name)
    is_met = policy.quorum in accepted
    is_witnessed = is_met and bool(cosigned)
    count = f"{len(cosigned)} of {len(witnesses)}"
    return {
        "verdict": "witnessed" if is_witnessed else "unwitnessed",
        "message": f"witnessed {count}"
        if is_witnessed
        else f"consistent but unwitnessed ({count})",
        "witnesses": [
            {"name": _printable_name(name), "time_s": str(witnesses[name])} for name in cosigned
        ],
        "witnesses_known": len(witnesses),
        "quorum_met": is_met,
        "not_verified": sorted({key.name for key, time_s in times.items() if time_s is None}),
    }


def _printable_name(name: str) -> str:
    """Return a name of a policy, which is octets, as text."""
    return name.encode(errors="surrogateescape").decode(errors="replace")


def _signature_line(line: str) -> tuple[str, bytes, bytes]:
    """Return the name, the id and the signature of a line below a note."""
    name, _, encoded = line.removeprefix("\u2014 ").partition(" ")
    stated = _decode_base64(encoded)
    is_line = line.startswith("\u2014 ") and _is_name(name) and len(stated) > 4
    _check(is_line, "a line below the note is no signature")
    return name, stated[:4], stated[4:]


def _key(vkey: str, kinds: Sequence[int]) -> Key:
    name, key_id, encoded = vkey.strip(" \t\r\n").split("+", 2)
    key = _decode_base64(encoded)
    own_id = sha256(name.encode() + b"\n" + key).digest()[:4]
    is_kind = key[0] in kinds and len(key) == 1 + _KEY_BYTES[key[0]] if key else False
    is_key = is_kind and _is_name(name) and own_id.hex() == key_id
    _check(is_key, f"{name!r} is no key of a note of a kind that signs this")
    return Key(name, key[0], key[1:], own_id)


def _is_name(name: str) -> bool:
    return 0 < len(name.encode()) <= NAME_BYTES_MAX and _NO_NAME.search(name) is None


def _policy(vkeys: Sequence[str], content: bytes | None) -> Policy:
    """Return whose signatures count: the logs of some keys or else of the policy, its witnesses."""
    _check(bool(vkeys) or content is not None, "a key of the log or a policy is needed")
    read = Policy((), False, {}, {}, "none") if content is None else _read_policy(content)
    if not vkeys:
        return read
    logs = [_key(vkey, LOG_KINDS) for vkey in vkeys]
    return read._replace(logs=logs, every=True)


def _read_policy(content: bytes) -> Policy:
    """Read a file of C2SP tlog-policy."""
    is_text = len(content) <= POLICY_BYTES_MAX and not content.translate(None, _POLICY_OCTETS)
    _check(is_text, "the policy is too large, or holds a control character")
    logs: list[Key] = []
    witnesses: dict[str, Key] = {}
    groups: dict[str, tuple[int, Sequence[str]]] = {}
    quorums = []
    for line in content.decode(errors="surrogateescape").split("\n"):
        keyword, *values = re.split("[ \t]+", line.strip(" \t"))
        if not keyword or keyword.startswith("#"):
            continue
        named = {"none": None, **witnesses, **groups}
        if keyword == "log":
            logs.append(_policy_key(values, LOG_KINDS))
        elif keyword == "witness" and values and values[0] not in named:
            witnesses[values[0]] = _policy_key(values[1:], WITNESS_KINDS)
        elif keyword == "group" and len(values) > 2 and values[0] not in named:
            groups[values[0]] = _group(values[1:], {*witnesses, *groups}, groups.values())
        elif keyword == "quorum" and len(values) == 1 and values[0] in named:
            quorums.append(values[0])
        else:
            raise ProofFileInvalid(f"a line of the policy says nothing: {keyword!a}")
    keys = [key.public_key for key in (*logs, *witnesses.values())]
    _check(len(keys) == len({*keys}), "the policy has a key twice")
    _check(len(quorums) == 1, "a policy has one quorum")
    return Policy(logs, False, witnesses, groups, quorums[0])


def _policy_key(values: Sequence[str], kinds: Sequence[int]) -> Key:
    _check(1 <= len(values) <= 2, "a line of the policy states a key, and a URL or nothing")
    return _key(values[0], kinds)


def _group(
    values: Sequence[str], known: set[str], groups: Iterable[tuple[int, Sequence[str]]]
) -> tuple[int, Sequence[str]]:
    """Return how many of which members are enough; nobody is a member twice."""
    enough, *members = values
    taken = [member for _, others in groups for member in others] + members
    is_whole = {*members} <= known and len(taken) == len({*taken})
    words = {"any": 1, "all": len(members)}
    is_number = enough in words or re.fullmatch("[1-9][0-9]{0,5}", enough) is not None
    _check(is_whole and is_number, "a group of the policy is of another form")
    count = words.get(enough) or int(enough)
    _check(count <= len(members), "a group of the policy has fewer members than are enough")
    return count, members


def check_inclusion(leaf: bytes, index: int, size: int, path: Sequence[bytes], root: bytes) -> None:
    """Check that a tree has a leaf with this hash at an index (RFC 9162 §2.1.3.2).

    Raises:
        ProofFileInvalid: it has not, or the path is none of that tree.
    """
    _check(0 <= index < size, f"a log of {size} rows has no row {index + 1}")
    _check_hashes(path)
    place, last, node = index, size - 1, leaf
    for sibling in path:
        _check(last > 0, "the path is too long")
        if place & 1 or place == last:
            node = _node(sibling, node)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            node = _node(node, sibling)
        place, last = place >> 1, last >> 1
    _check(last == 0, "the path is too short")
    _check(node == root, "the path leads to another root")


def check_consistency(
    old_size: int, old_root: bytes, size: int, root: bytes, path: Sequence[bytes]
) -> None:
    """Check that a tree begins with an older one (RFC 9162 §2.1.4.2).

    Raises:
        ProofFileInvalid: it does not, or the path is none between the two.
    """
    _check(0 <= old_size <= size, f"a log of {size} rows does not begin with {old_size}")
    _check_hashes(path)
    if old_size in (0, size):
        expected = root if old_size else EMPTY_ROOT
        _check(not path and old_root == expected, "the two trees are not the same")
        return
    _check(len(path) > 0, "the path is too short")
    nodes = list(path) if old_size & (old_size - 1) else [old_root, *path]
    place, last = old_size - 1, size - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    old_node = node = nodes[0]
    for sibling in nodes[1:]:
        _check(last > 0, "the path is too long")
        if place & 1 or place == last:
            old_node, node = _node(sibling, old_node), _node(sibling, node)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            node = _node(node, sibling)
        place, last = place >> 1, last >> 1
    _check(last == 0, "the path is too short")
    _check(old_node == old_root and node == root, "the path leads to another root")


def check_eta(leaf: bytes, place: int, count: int, path: Sequence[bytes], root: bytes) -> None:
    """Check that a session's tree, whose last node of an odd level stands twice, has a leaf.

    The count has to come from the session's seal: the root does not bind it.

    Raises:
        ProofFileInvalid: it has not, or the path is none of that tree.
    """
    _check(0 <= place < count, f"a session of {count} thoughts has no thought {place + 1}")
    _check_hashes(path)
    node, width = leaf, count
    for sibling in path:
        _check(width > 1, "the path is too long")
        is_alone = place == width - 1 and width % 2 == 1
        _check((sibling == node) == is_alone, "a node has another sibling than its place gives it")
        node = sha256(sibling + node if place % 2 else node + sibling).digest()
        place, width = place // 2, (width + 1) // 2
    _check(width == 1, "the path is too short")
    _check(node == root, "the path leads to another root")


def _node(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()


def _check_hashes(path: Sequence[bytes]) -> None:
    _check(all(len(node) == _HASH_BYTES for node in path), "a hash has another length")


def _hashes(lines: Sequence[str]) -> list[bytes]:
    _check(isinstance(lines, list), "a path is a list")
    return [_decode_base64(line) for line in lines]


def _decode_base64(text: str) -> bytes:
    """Read base64 that is written as it would be written again."""
    content = base64.b64decode(text, validate=True)
    _check(base64.b64encode(content).decode() == text, "the base64 is not what it decodes to")
    return content


def _hex(text: str, length: int = _HASH_BYTES) -> bytes:
    content = bytes.fromhex(text)
    is_hex = len(content) == length and content.hex() == text
    _check(is_hex, f"{length} bytes in lower-case hex are expected")
    return content


def _number(text: str) -> int:
    is_number = text.isascii() and text.isdigit() and len(text) <= 19
    _check(is_number and text == str(int(text)), "a number is not written as it should be")
    _check(int(text) <= _NUMBER_MAX, "a number is too large")
    return int(text)


def _whole(value: Any) -> int:
    """Return a number of JSON that every reader takes for the same whole number."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    _check(is_number and abs(value) <= _SAFE_MAX and value % 1 == 0, "a count is no whole number")
    return int(value)


def _object(text: str) -> dict[str, Any]:
    _check_bounds(text)
    document = json.loads(text, parse_constant=_refuse)
    _check(isinstance(document, dict), "this is no JSON object")
    return dict(document)


def _check_bounds(text: str) -> None:
    """Check what one reader of JSON would refuse and another not (decision kernel/0495)."""
    depth = 0
    for part in re.findall(r"[\[\]{}]|[^\[\]{},: \t\n\r]+", _STRING.sub("", text)):
        depth += (part in "[{") - (part in "]}")
        is_bounded = depth <= _DEPTH_MAX and len(part) <= _TOKEN_CHARS_MAX
        _check(is_bounded, "the JSON is nested too deep, or a number is too long")


def _refuse(name: str) -> float:
    raise ProofFileInvalid(f"{name} is not JSON")


def _check(holds: bool, message: str) -> None:  # noqa: FBT001
    if not holds:
        raise ProofFileInvalid(message)


def main() -> int:
    """Verify the file that the command line names, and print what it proves."""
    parser = argparse.ArgumentParser(description="Verify a proof file.")
    parser.add_argument("file")
    key_help = "a key of the log; each must sign"
    parser.add_argument("--vkey", action="append", default=[], metavar="KEY", help=key_help)
    parser.add_argument("--policy", help="a file of tlog-policy: whose cosignatures are enough")
    options = parser.parse_args()
    try:
        policy = _content(options.policy, POLICY_BYTES_MAX) if options.policy else None
        content = _content(options.file, FILE_BYTES_MAX)
        proved = verify_proof_file(content, *options.vkey, policy=policy)
    except (ProofFileInvalid, OSError) as error:
        sys.stderr.write(f"proof_invalid: {error}\n")
        return 1
    sys.stdout.write(json.dumps(proved, indent=2) + "\n")
    return 0 if proved["quorum_met"] else 1


def _content(path: str, limit: int) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123 - as little as possible is needed
        return file.read(limit + 1)


if __name__ == "__main__":
    sys.exit(main())
