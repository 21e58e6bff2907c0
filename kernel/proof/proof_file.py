"""Verifies proof files by itself: copy this one file to where nothing of Rotulus is.

    python proof_file.py FILE VKEY

It needs Python 3.11 and `cryptography`, and imports nothing of ours. A proof file is a JSON object:
the stored bytes of a row of the log, a proof that the row is in the log (C2SP tlog-proof, with a
signed checkpoint inside), and, where it is shown, the envelope to which the row commits, with its
salt. The key of the log (`rotulus checkpoint key` printed it) has to come from elsewhere: whoever
made the file could have made a key as well.
"""

import base64
import json
import sys
from hashlib import sha256
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

FORMAT = "rotulus-proof/v1"
TLOG_PROOF = "c2sp.org/tlog-proof@v1"
FILE_BYTES_MAX = 16 << 20
BLOB_DOMAIN = b"rotulus/payload/v1\x00"

_HASH_BYTES = 32
_ED25519 = b"\x01"


class ProofFileInvalid(Exception):
    """The file does not prove what it says."""

    code = "proof_invalid"


def verified(content: bytes, vkey: str) -> dict[str, Any]:
    """Return what a proof file proves.

    Raises:
        ProofFileInvalid: it proves nothing.
    """
    try:
        return _verified(content, vkey)
    except ProofFileInvalid:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ProofFileInvalid(f"this is no proof file: {error}") from error


def _verified(content: bytes, vkey: str) -> dict[str, Any]:
    _check(len(content) <= FILE_BYTES_MAX, "the file is too large")
    document = json.loads(content)
    _check(document["format"] == FORMAT, f"the format is not {FORMAT}")
    row_bytes = document["row"].encode()
    index, path, note = _tlog_proof(document["tlog_proof"])
    origin, size, root = _checkpoint(note, vkey)
    _check(0 <= index < size, f"a log of {size} rows has no row {index + 1}")
    leaf = sha256(b"\x00" + row_bytes).digest()
    _check(root_over(leaf, index, size, path) == root, "the path leads to another root")
    row = json.loads(row_bytes)
    _check(row["ec_sequence_number"] == str(index + 1), "the row is that of another place")
    return {
        "verifies": True,
        "verdict": "unwitnessed",
        "origin": origin,
        "tree_head": f"{size}:{root.hex()}",
        "row": row,
        "envelope": _envelope(document.get("envelope"), row),
    }


def _tlog_proof(text: str) -> tuple[int, list[bytes], str]:
    head, mark, note = text.partition("\n\n")
    first, index, *path = head.split("\n")
    _check(bool(mark) and first == TLOG_PROOF, f"the proof is no {TLOG_PROOF}")
    if index.startswith("extra "):
        index, *path = path
    number = int(index.removeprefix("index "))
    _check(index == f"index {number}", "the index is not written as it should be")
    hashes = [base64.b64decode(line, validate=True) for line in path]
    _check(all(len(node) == _HASH_BYTES for node in hashes), "a hash has another length")
    return number, hashes, note


def _checkpoint(note: str, vkey: str) -> tuple[str, int, bytes]:
    """Return what a checkpoint states that the key has signed."""
    name, key_id, encoded = vkey.strip().split("+", 2)
    key = base64.b64decode(encoded, validate=True)
    own_id = sha256(name.encode() + b"\n" + key).digest()[:4]
    _check(key[:1] == _ED25519 and own_id.hex() == key_id, "the key is no Ed25519 key of a note")
    text, _, signatures = note.rpartition("\n\n")
    text += "\n"
    prefix = f"\u2014 {name} "
    for line in signatures.split("\n"):
        if not line.startswith(prefix):
            continue
        signature = base64.b64decode(line.removeprefix(prefix), validate=True)
        if signature[:4] != own_id:
            continue
        try:
            Ed25519PublicKey.from_public_bytes(key[1:]).verify(signature[4:], text.encode())
        except InvalidSignature:
            break
        origin, size, root = text.split("\n")[:3]
        _check(origin == name, f"the checkpoint is of {origin!r}")
        _check(size == str(int(size)), "the size is not written as it should be")
        return origin, int(size), base64.b64decode(root, validate=True)
    raise ProofFileInvalid(f"the checkpoint is not signed by {name}")


def root_over(leaf: bytes, index: int, size: int, path: list[bytes]) -> bytes:
    """Return the root to which a path leads (RFC 9162 §2.1.3.2)."""
    place, last, node = index, size - 1, leaf
    for sibling in path:
        _check(last > 0, "the path is too long")
        if place & 1 or place == last:
            node = sha256(b"\x01" + sibling + node).digest()
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            node = sha256(b"\x01" + node + sibling).digest()
        place, last = place >> 1, last >> 1
    _check(last == 0, "the path is too short")
    return node


def _envelope(opening: dict[str, str] | None, row: dict[str, Any]) -> Any:
    """Return the envelope to which the row commits, None where it is withheld."""
    if opening is None:
        return None
    salt, content = bytes.fromhex(opening["salt"]), opening["content"].encode()
    framed = BLOB_DOMAIN + salt + len(content).to_bytes(8, "big") + content
    commitment = sha256(framed).hexdigest()
    _check(commitment == row["envelope_payload_blob_ref"], "the row commits to another envelope")
    return json.loads(content)


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
