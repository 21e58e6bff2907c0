"""Writes and reads signed notes (C2SP signed-note): a text, and lines of signatures; pure."""

import base64
import binascii
from dataclasses import dataclass
from typing import Self

from kernel.proof.signing_keys import KEY_ID_BYTES, is_key_name
from kernel.proof.verification import ProofInvalid

NOTE_BYTES_MAX = 64 << 10
"""Room for sixteen signatures of ML-DSA-44."""

_SIGNATURE_MARK = "\u2014 "


@dataclass(frozen=True, slots=True)
class NoteSignature:
    """A line below a note: by which key, and the signature, with its time where it has one."""

    name: str
    key_id: bytes
    signature: bytes

    @property
    def line(self) -> str:
        """The line as it stands in a note, with its end."""
        encoded = base64.b64encode(self.key_id + self.signature).decode()
        return f"{_SIGNATURE_MARK}{self.name} {encoded}\n"

    @classmethod
    def of_line(cls, line: str) -> Self:
        """Read a line without its end.

        Raises:
            ProofInvalid: it is no line of a signature.
        """
        name, _, encoded = line.removeprefix(_SIGNATURE_MARK).partition(" ")
        try:
            stated = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            stated = b""
        if (
            not line.startswith(_SIGNATURE_MARK)
            or not is_key_name(name)
            or len(stated) <= KEY_ID_BYTES
            or base64.b64encode(stated).decode() != encoded
        ):
            raise ProofInvalid("a line below the note is no signature")
        return cls(name, stated[:KEY_ID_BYTES], stated[KEY_ID_BYTES:])


@dataclass(frozen=True, slots=True)
class SignedNote:
    """A text that ends in a newline, and the signatures below it, none of them verified."""

    text: str
    signatures: tuple[NoteSignature, ...]

    @classmethod
    def of_bytes(cls, content: bytes) -> Self:
        """Read a note.

        Raises:
            ProofInvalid: it is none, or is longer than `NOTE_BYTES_MAX`.
        """
        if len(content) > NOTE_BYTES_MAX:
            raise ProofInvalid(f"a note has at most {NOTE_BYTES_MAX} bytes")
        try:
            stated = content.decode()
        except UnicodeDecodeError:
            raise ProofInvalid("the note is no text") from None
        if any(character < " " and character != "\n" for character in stated):
            raise ProofInvalid("the note holds a control character")
        text, mark, below = stated.rpartition("\n\n")
        if not mark:
            raise ProofInvalid("the note is not signed")
        return cls(f"{text}\n", signatures_of(below))

    def to_bytes(self) -> bytes:
        """Return what `of_bytes` reads."""
        return f"{self.text}\n{''.join(line.line for line in self.signatures)}".encode()


def signatures_of(lines: str) -> tuple[NoteSignature, ...]:
    """Read lines of signatures, each with its end, at least one.

    Raises:
        ProofInvalid: a line is none.
    """
    if not lines.endswith("\n"):
        raise ProofInvalid("the last line has no end")
    return tuple(NoteSignature.of_line(line) for line in lines[:-1].split("\n"))
