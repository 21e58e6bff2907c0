"""Checkpoints as signed notes (C2SP): what is signed, by whom, and what a verifier refuses."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.proof.checkpoint import Checkpoint, NoteSigner, NoteVerifier, is_key_name
from kernel.proof.verification import ProofInvalid

SIGNER = NoteSigner("example.com/log", b"k" * 32)
ROOT = bytes(range(32))
NOTE = SIGNER.sign(20_852_163, ROOT)

# The example of C2SP signed-note, signed by others.
STRANGE = (
    "Ognuno sta solo sul cuor della terra\ntrafitto da un raggio di sole:\n\ned è subito sera.\n"
)


def test_a_note_is_text_an_empty_line_and_the_signature():
    origin, size, root, empty, signature, end = NOTE.decode().split("\n")
    assert (origin, size, empty, end) == ("example.com/log", "20852163", "", "")
    assert base64.b64decode(root) == ROOT
    mark, name, encoded = signature.split(" ")
    assert (mark, name) == ("\u2014", "example.com/log")
    assert base64.b64decode(encoded)[:4] == SIGNER.verifier.key_id


def test_whoever_has_the_key_opens_the_note():
    verifier = NoteVerifier.of_vkey(SIGNER.verifier.vkey)
    assert verifier == SIGNER.verifier
    assert verifier.opened(NOTE) == Checkpoint("example.com/log", 20_852_163, ROOT)


def test_lines_of_other_keys_are_passed_over():
    other = NoteSigner("witness.example", b"w" * 32)
    text, _, signature = NOTE.decode().partition("\n\n")
    line = base64.b64encode(other.verifier.key_id + b"s" * 64).decode()
    both = f"{text}\n\n\u2014 witness.example {line}\n\u2014 junk\n{signature}"
    assert SIGNER.verifier.opened(both.encode()).size == 20_852_163


def test_size_and_root_are_bound_by_one_signature():
    for change in ((b"20852163", b"20852164"), (b"example.com/log\n", b"example.com/lag\n")):
        with pytest.raises(ProofInvalid):
            SIGNER.verifier.opened(NOTE.replace(*change, 1))


@given(st.integers(0, len(NOTE) - 1), st.integers(1, 255))
def test_a_note_with_any_byte_changed_says_nothing_else(place, change):
    changed = bytearray(NOTE)
    changed[place] ^= change
    try:
        opened = SIGNER.verifier.opened(bytes(changed))
    except ProofInvalid:
        return
    assert opened == Checkpoint("example.com/log", 20_852_163, ROOT)


@given(st.binary(max_size=300))
def test_what_is_no_note_is_refused(content):
    with pytest.raises(ProofInvalid):
        SIGNER.verifier.opened(content)


@pytest.mark.parametrize(
    "text",
    [STRANGE, "o\n1\n", "o\n01\nAA==\n", "o\n-1\nAA==\n", "\n1\nAA==\n", "o\n1\nAA==\n", ""],
)
def test_a_text_that_is_no_checkpoint_is_refused(text):
    with pytest.raises(ProofInvalid):
        Checkpoint.of_text(text)


def test_a_key_of_another_kind_or_name_is_refused():
    name, key_id, encoded = SIGNER.verifier.vkey.split("+", 2)
    other_kind = base64.b64encode(b"\x04" + SIGNER.verifier.public_key).decode()
    for vkey in (
        "",
        f"other+{key_id}+{encoded}",
        f"{name}+{key_id}+{other_kind}",
        f"{name}+{key_id}+{encoded[:8]}",
        f"{name}+{key_id}+!",
    ):
        with pytest.raises(ProofInvalid):
            NoteVerifier.of_vkey(vkey)
    assert [is_key_name(name) for name in ("a b", "a+b", "", "a\n", "é/1")] == [False] * 4 + [True]
