"""Checkpoints as signed notes (C2SP): what is signed, by whom, and what a verifier refuses."""

import base64
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.proof.checkpoint import Checkpoint, SignedCheckpoint, sign_checkpoint
from kernel.proof.merkle_tree import EMPTY_ROOT
from kernel.proof.signed_note import NOTE_BYTES_MAX, NoteSignature, SignedNote
from kernel.proof.signing_keys import (
    KeyKind,
    NoteVerifier,
    SeedKey,
    SigningKeyUnavailable,
    is_key_name,
)
from kernel.proof.verification import ProofInvalid

NAME = "example.com/log"
KEYS = tuple(SeedKey(NAME, kind, b"k" * 32) for kind in (KeyKind.ED25519, KeyKind.ML_DSA_44))
ED25519, ML_DSA_44 = (key.verifier for key in KEYS)
STATED = Checkpoint(NAME, 20_852_163, bytes(range(32)))
NOTE = sign_checkpoint(STATED, KEYS).to_bytes()

WITNESSES = tuple(
    SeedKey("witness.example/w1", kind, b"w" * 32)
    for kind in (KeyKind.ED25519_COSIGNATURE, KeyKind.ML_DSA_44)
)
TIME_S = 1_700_000_000

# The example of C2SP signed-note, signed by others.
STRANGE = (
    "Ognuno sta solo sul cuor della terra\ntrafitto da un raggio di sole:\n\ned è subito sera.\n"
)

VECTORS = json.loads(Path(__file__).with_name("proof_vectors.json").read_text())
GO_NOTE, GO_SUM, LITEWITNESS = VECTORS.values()


def opened(note, verifier=ED25519):
    return SignedCheckpoint.of_bytes(note).check_signed(verifier)


def test_a_note_is_text_an_empty_line_and_the_signatures():
    origin, size, root, empty, *lines, end = NOTE.decode().split("\n")
    assert (origin, size, empty, end) == (NAME, "20852163", "", "")
    assert base64.b64decode(root) == STATED.root
    assert len(lines) == 2
    for line, verifier in zip(lines, (ED25519, ML_DSA_44), strict=True):
        mark, name, encoded = line.split(" ")
        assert (mark, name) == ("\u2014", NAME)
        assert base64.b64decode(encoded)[:4] == verifier.key_id


@pytest.mark.parametrize("verifier", [ED25519, ML_DSA_44])
def test_whoever_has_a_key_opens_the_note(verifier):
    assert NoteVerifier.of_vkey(verifier.vkey) == verifier
    assert opened(NOTE, NoteVerifier.of_vkey(verifier.vkey)) == STATED


def test_notes_of_others_are_read_as_they_read_them():
    key = SeedKey.of_line(GO_NOTE["private_key"])
    assert key.line == GO_NOTE["private_key"]
    assert key.verifier.vkey == GO_NOTE["vkey"]
    note = SignedNote.of_bytes(GO_NOTE["note"].encode())
    assert note.to_bytes() == GO_NOTE["note"].encode()
    [line] = note.signatures
    assert line.signature == key.signature(note.text.encode())

    checkpoint = SignedCheckpoint.of_bytes(GO_SUM["note"].encode())
    verifier = NoteVerifier.of_vkey(GO_SUM["vkey"])
    assert checkpoint.holding([verifier]) == {verifier: 0}
    assert checkpoint.stated.size == 31_700_353

    assert opened(
        LITEWITNESS["note"].encode(), NoteVerifier.of_vkey(LITEWITNESS["vkey"])
    ) == Checkpoint(
        "example.com/mldsa-log", 1, base64.b64decode(LITEWITNESS["note"].split("\n")[2])
    )


@pytest.mark.parametrize("witness", WITNESSES)
def test_a_cosignature_binds_its_time(witness):
    cosigned = SignedCheckpoint.of_bytes(NOTE).sign(witness, TIME_S)
    assert cosigned.holding([witness.verifier]) == {witness.verifier: TIME_S}
    *before, line = cosigned.note.signatures
    later = NoteSignature(
        line.name, line.key_id, (TIME_S + 1).to_bytes(8, "big") + line.signature[8:]
    )
    moved = SignedCheckpoint(SignedNote(cosigned.note.text, (*before, later)), cosigned.stated)
    with pytest.raises(ProofInvalid):
        moved.holding([witness.verifier])
    beyond = NoteSignature(line.name, line.key_id, b"\xff" * 8 + line.signature[8:])
    with pytest.raises(ProofInvalid):
        SignedCheckpoint(SignedNote(cosigned.note.text, (beyond,)), cosigned.stated).holding(
            [witness.verifier]
        )


def test_an_ed25519_cosignature_signs_the_time_and_the_text():
    witness = WITNESSES[0]
    cosigned = SignedCheckpoint.of_bytes(NOTE).sign(witness, TIME_S)
    stated = cosigned.note.signatures[-1].signature
    assert stated == TIME_S.to_bytes(8, "big") + witness.signature(
        f"cosignature/v1\ntime {TIME_S}\n{STATED.text()}".encode()
    )


def test_no_signature_passes_for_one_of_another_kind():
    """The same key under two kinds: what one signs, the other does not take."""
    seed = b"s" * 32
    note_key = SeedKey(NAME, KeyKind.ED25519, seed)
    cosigner = SeedKey(NAME, KeyKind.ED25519_COSIGNATURE, seed)
    signed = sign_checkpoint(STATED, [note_key])
    [line] = signed.note.signatures
    for time in (b"", bytes(8)):
        forged = NoteSignature(NAME, cosigner.verifier.key_id, time + line.signature)
        with pytest.raises(ProofInvalid):
            signed.with_signatures([forged]).holding([cosigner.verifier])


def test_a_later_signature_of_a_key_takes_the_place_of_its_older_one():
    witness = WITNESSES[0]
    signed = SignedCheckpoint.of_bytes(NOTE)
    twice = signed.sign(witness, TIME_S).sign(witness, TIME_S + 60)
    assert twice.holding([witness.verifier]) == {witness.verifier: TIME_S + 60}
    assert len(twice.note.signatures) == len(signed.note.signatures) + 1


def test_lines_of_other_keys_are_passed_over():
    text, _, below = NOTE.decode().partition("\n\n")
    line = base64.b64encode(WITNESSES[0].verifier.key_id + b"s" * 64).decode()
    namesake = base64.b64encode(b"\0\0\0\0" + b"s" * 64).decode()
    both = f"{text}\n\n\u2014 witness.example {line}\n\u2014 {NAME} {namesake}\n{below}"
    assert opened(both.encode()) == STATED


def test_a_note_of_another_logs_key_is_refused():
    other = SeedKey("example.com/other", KeyKind.ED25519, b"o" * 32)
    note = sign_checkpoint(STATED, [other]).to_bytes()
    with pytest.raises(ProofInvalid, match=r"not of example\.com/other"):
        opened(note, other.verifier)


def test_size_and_root_are_bound_by_each_signature():
    for verifier in (ED25519, ML_DSA_44):
        for change in ((b"20852163", b"20852164"), (b"example.com/log\n", b"example.com/lag\n")):
            with pytest.raises(ProofInvalid):
                opened(NOTE.replace(*change, 1), verifier)


@pytest.mark.parametrize("verifier", [ED25519, ML_DSA_44])
@given(st.data())
def test_a_note_with_any_byte_changed_says_nothing_else(verifier, data):
    place = data.draw(st.integers(0, len(NOTE) - 1))
    changed = bytearray(NOTE)
    changed[place] ^= data.draw(st.integers(1, 255))
    try:
        stated = opened(bytes(changed), verifier)
    except ProofInvalid:
        return
    assert stated == STATED


@given(
    st.one_of(
        st.binary(max_size=300),
        st.text(max_size=300).map(str.encode),
        st.lists(
            st.sampled_from(["\u2014 ", NAME, " ", "\n", "\n\n", "0", "AAAA", "AAAAAAAA=", "+"]),
            max_size=20,
        ).map(lambda parts: "".join(parts).encode()),
    )
)
def test_what_is_no_note_is_refused(content):
    for read in (SignedNote.of_bytes, SignedCheckpoint.of_bytes, opened):
        try:
            note = read(content)
        except ProofInvalid:
            continue
        assert read is SignedNote.of_bytes
        assert SignedNote.of_bytes(note.to_bytes()) == note


@pytest.mark.parametrize(
    "note",
    [
        NOTE.replace(b"\xe2\x80\x94", b"-", 1),
        NOTE.removesuffix(b"\n"),
        NOTE + b"\n",
        NOTE + b"junk\n",
        NOTE.replace(b"20852163", b"20852163\r"),
        NOTE + b"\xff",
        NOTE + b"\xe2\x80\x94 x AAAA\n",
        b"a" * (NOTE_BYTES_MAX + 1),
        STATED.text().encode(),
    ],
)
def test_a_note_of_another_form_is_refused(note):
    with pytest.raises(ProofInvalid):
        opened(note)


def text_of(origin, size, root):
    return f"{origin}\n{size}\n{base64.b64encode(root).decode()}\n"


@pytest.mark.parametrize(
    "text",
    [
        *(STRANGE, "o\n1\n", "o\n1\nAA==\n", ""),
        text_of("o", "01", STATED.root),
        text_of("o", "-1", STATED.root),
        text_of("o", "+1", STATED.root),
        text_of("o", "1_0", STATED.root),
        text_of("o", "٣", STATED.root),
        text_of("o", 1 << 63, STATED.root),
        text_of("o", "9" * 5000, STATED.root),
        text_of("", 1, STATED.root),
        text_of("o" * 256, 1, STATED.root),
        text_of("o", 0, STATED.root),
        text_of("o", 1, STATED.root)[:-1],
    ],
)
def test_a_text_that_is_no_checkpoint_is_refused(text):
    with pytest.raises(ProofInvalid):
        Checkpoint.of_text(text)


def test_a_text_may_have_further_lines():
    text = text_of("o", 0, EMPTY_ROOT) + "an extension\n"
    assert Checkpoint.of_text(text) == Checkpoint("o", 0, EMPTY_ROOT)


def encoded_key(kind, material):
    return base64.b64encode(bytes([kind]) + material).decode()


def test_a_key_of_another_kind_or_name_is_refused():
    name, key_id, encoded = ED25519.vkey.split("+", 2)
    for vkey in (
        "",
        f"other+{key_id}+{encoded}",
        f"{name}+{key_id}+{encoded_key(4, ED25519.public_key)}",
        f"{name}+{key_id}+{encoded_key(2, ED25519.public_key)}",
        f"{name}+{key_id}+{encoded[:8]}",
        f"{name}+{key_id}+!",
        f"{name}+{key_id}+",
        KEYS[0].line,
    ):
        with pytest.raises(ProofInvalid):
            NoteVerifier.of_vkey(vkey)
    for line in ("", ED25519.vkey, KEYS[0].line.replace(key_id, "00000000")):
        with pytest.raises(ProofInvalid):
            SeedKey.of_line(line)
    names = ("a b", "a+b", "", "a\n", "n" * 256, "é/1")
    assert [is_key_name(name) for name in names] == [False] * 5 + [True]


def test_a_private_key_is_not_shown():
    assert "kkkk" not in repr(KEYS[0])
    assert base64.b64encode(KEYS[0].seed).decode() not in repr(KEYS)


class ExternalSigner:
    """A key that lies elsewhere, as one in a KMS does: who uses it has its public half alone."""

    def __init__(self, key):
        self.verifier, self.is_away = key.verifier, False
        self._ask = key.signature

    def signature(self, message):
        if self.is_away:
            raise SigningKeyUnavailable("no answer for 2 s")
        return self._ask(message)


def test_a_key_that_lies_elsewhere_signs_the_same():
    elsewhere = tuple(ExternalSigner(key) for key in KEYS)
    assert opened(sign_checkpoint(STATED, elsewhere).to_bytes(), ML_DSA_44) == STATED
    elsewhere[1].is_away = True
    with pytest.raises(SigningKeyUnavailable):
        sign_checkpoint(STATED, elsewhere)
