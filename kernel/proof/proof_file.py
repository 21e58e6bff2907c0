"""Verifies proof files by itself: copy this one file to where nothing of Rotulus is.

    python proof_file.py FILE VKEY

It needs Python 3.11 and `cryptography`, and imports nothing of ours; `proof_file.mjs` beside it
does the same in a browser or under Node. What both take for a proof is the same to the byte.

A proof file is a JSON object. All kinds but `consistency` hold the stored bytes of a row of the
log and a proof that the row is in the log (C2SP tlog-proof, with a signed checkpoint inside). Where
it is shown they hold the envelope to which the row commits, with its salt. What a kind proves of
the envelope is in `KINDS`. The key of the log (`rotulus checkpoint key` printed it) has to come
from elsewhere: whoever made the file could have made a key as well.
"""

import base64
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

FORMAT = "rotulus-proof/v1"
TLOG_PROOF = "c2sp.org/tlog-proof@v1"
FILE_BYTES_MAX = 16 << 20
BLOB_DOMAIN = b"rotulus/payload/v1\x00"
SALT_BYTES = 32
EMPTY_ROOT = sha256(b"").digest()

ANCHOR_VERB = "belief_anchor"
ELIMINATE_VERB = "ELIMINATE"
MANIFEST_RECEIPT = "binding_evaluation_manifest"

_HASH_BYTES = 32
_ED25519 = b"\x01"
_DIGITS_MAX = 18


class ProofFileInvalid(Exception):
    """The file does not prove what it says."""

    code = "proof_invalid"


def verified(content: bytes, vkey: str) -> dict[str, Any]:
    """Return what a proof file proves.

    Raises:
        ProofFileInvalid: it proves nothing.
    """
    try:
        _check(len(content) <= FILE_BYTES_MAX, "the file is too large")
        document = _object(content.decode())
        _check(document["format"] == FORMAT, f"the format is not {FORMAT}")
        kind = document["kind"]
        _check(isinstance(kind, str) and kind in KINDS, "the kind of proof is unknown")
        proved = {"verifies": True, "verdict": "unwitnessed", "kind": kind}
        return proved | KINDS[kind](document, vkey)
    except ProofFileInvalid:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ProofFileInvalid(f"this is no proof file: {error}") from error


def _operation(document: dict[str, Any], vkey: str) -> dict[str, Any]:
    """An operation is in the log; its envelope may be withheld."""
    proved, row = _row(document, vkey)
    opening = document.get("envelope")
    return proved | {"envelope": None if opening is None else opened_envelope(row, opening)}


def _elimination(document: dict[str, Any], vkey: str) -> dict[str, Any]:
    """A tombstone of a belief session is in the log."""
    proved, row = _row(document, vkey)
    event = anchored_event(row, document["envelope"], document["events"])
    _check(event["verb"] == ELIMINATE_VERB, "the event is no elimination")
    return proved | {"event": event}


def _manifest(document: dict[str, Any], vkey: str) -> dict[str, Any]:
    """A manifest of an evaluation cycle is in the log."""
    proved, row = _row(document, vkey)
    effect = _sole_effect(opened_envelope(row, document["envelope"]))
    _check(effect["receipt_subkind"] == MANIFEST_RECEIPT, "the operation states no manifest")
    return proved | {"manifest": effect["payload"]}


def _consistency(document: dict[str, Any], vkey: str) -> dict[str, Any]:
    """The log of a checkpoint goes on from that of an older one."""
    _, old_size, old_root = _checkpoint(document["old_checkpoint"], vkey)
    origin, size, root = _checkpoint(document["checkpoint"], vkey)
    check_consistency(old_size, old_root, size, root, _hashes(document["path"]))
    heads = {"old_tree_head": f"{old_size}:{old_root.hex()}", "tree_head": f"{size}:{root.hex()}"}
    return {"origin": origin} | heads


KINDS: Mapping[str, Callable[[dict[str, Any], str], dict[str, Any]]] = {
    "operation": _operation,
    "elimination": _elimination,
    "manifest": _manifest,
    "consistency": _consistency,
}
"""What verifies a kind of proof file, and returns what it proves."""


def _row(document: dict[str, Any], vkey: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return whose log has a row, under which head, and what the row says."""
    row_bytes = document["row"].encode()
    index, path, note = _tlog_proof(document["tlog_proof"])
    origin, size, root = _checkpoint(note, vkey)
    check_inclusion(sha256(b"\x00" + row_bytes).digest(), index, size, path, root)
    row = _object(row_bytes.decode())
    _check(row["ec_sequence_number"] == str(index + 1), "the row is that of another place")
    return {"origin": origin, "tree_head": f"{size}:{root.hex()}", "row": row}, row


def opened_envelope(row: dict[str, Any], opening: dict[str, str]) -> dict[str, Any]:
    """Return the envelope of an opening, to which a row commits.

    Raises:
        ProofFileInvalid: the row commits to another one.
    """
    salt, content = bytes.fromhex(opening["salt"]), opening["content"].encode()
    is_salt = len(salt) == SALT_BYTES and salt.hex() == opening["salt"]
    _check(is_salt, f"a salt is {SALT_BYTES} bytes in lower-case hex")
    framed = BLOB_DOMAIN + salt + len(content).to_bytes(8, "big") + content
    commitment = sha256(framed).hexdigest()
    _check(commitment == row["envelope_payload_blob_ref"], "the row commits to another envelope")
    return _object(content.decode())


def anchored_event(
    row: dict[str, Any], opening: dict[str, str], events: Sequence[str]
) -> dict[str, Any]:
    """Return the first of some events of a belief session, which an operation anchors.

    `events` are the bytes that are hashed of it and of all that follow it up to the head that the
    operation names; each holds the hash of the one before.

    Raises:
        ProofFileInvalid: the row's operation does not anchor them.
    """
    envelope = opened_envelope(row, opening)
    _check(envelope["semantic_intent"] == ANCHOR_VERB, "the operation anchors no session")
    documents = [_object(event) for event in events]
    hashes = [sha256(event.encode()).hexdigest() for event in events]
    _check(len(documents) > 0, "no event is shown")
    session_id = documents[0]["session_id"]
    sessions = _sole_effect(envelope)["payload"]["sessions"]
    anchors = [anchor for anchor in sessions if anchor["session_id"] == session_id]
    _check(len(anchors) == 1, "the operation does not anchor this session")
    [anchor] = anchors
    anchored = anchor["last_event_index"] - anchor["first_event_index"] + 1
    _check(len(events) <= anchored, "the operation anchors fewer events")
    for document, before in zip(documents[1:], hashes, strict=False):
        _check(document["prev_event_hash"] == before, "an event does not follow the one before")
        _check(document["session_id"] == session_id, "an event is of another session")
    _check(hashes[-1] == anchor["head_event_hash"], "the operation anchors another event")
    return documents[0]


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


def _checkpoint(note: str, vkey: str) -> tuple[str, int, bytes]:
    """Return what a checkpoint states that the key has signed."""
    name, key_id, encoded = vkey.strip().split("+", 2)
    key = _decoded(encoded)
    own_id = sha256(name.encode() + b"\n" + key).digest()[:4]
    _check(key[:1] == _ED25519 and own_id.hex() == key_id, "the key is no Ed25519 key of a note")
    text, _, signatures = note.rpartition("\n\n")
    text += "\n"
    prefix = f"\u2014 {name} "
    for line in signatures.split("\n"):
        if not line.startswith(prefix):
            continue
        signature = _decoded(line.removeprefix(prefix))
        if signature[:4] != own_id:
            continue
        try:
            Ed25519PublicKey.from_public_bytes(key[1:]).verify(signature[4:], text.encode())
        except InvalidSignature:
            break
        origin, size, root = text.split("\n")[:3]
        _check(origin == name, f"the checkpoint is of {origin!r}")
        return origin, _number(size), _decoded(root)
    raise ProofFileInvalid(f"the checkpoint is not signed by {name}")


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


def _node(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()


def _check_hashes(path: Sequence[bytes]) -> None:
    _check(all(len(node) == _HASH_BYTES for node in path), "a hash has another length")


def _hashes(lines: Sequence[str]) -> list[bytes]:
    _check(isinstance(lines, list), "a path is a list")
    return [_decoded(line) for line in lines]


def _decoded(text: str) -> bytes:
    """Read base64 that is written as it would be written again."""
    content = base64.b64decode(text, validate=True)
    _check(base64.b64encode(content).decode() == text, "the base64 is not what it decodes to")
    return content


def _number(text: str) -> int:
    is_whole = text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
    _check(is_whole and text == str(int(text)), "a number is not written as it should be")
    return int(text)


def _object(text: str) -> dict[str, Any]:
    document = json.loads(text, parse_constant=_refuse)
    _check(isinstance(document, dict), "this is no JSON object")
    return dict(document)


def _refuse(name: str) -> float:
    raise ProofFileInvalid(f"{name} is not JSON")


def _check(holds: bool, message: str) -> None:  # noqa: FBT001
    if not holds:
        raise ProofFileInvalid(message)


def main() -> int:
    """Verify the file that the command line names, and print what it proves."""
    if len(sys.argv) != 3:
        sys.stderr.write("python proof_file.py FILE VKEY\n")
        return 2
    try:
        with open(sys.argv[1], "rb") as file:  # noqa: PTH123 - as little as possible is needed
            proved = verified(file.read(FILE_BYTES_MAX + 1), sys.argv[2])
    except (ProofFileInvalid, OSError) as error:
        sys.stderr.write(f"proof_invalid: {error}\n")
        return 1
    sys.stdout.write(json.dumps(proved, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
