"""What a witness decides (C2SP tlog-witness): the status of each request, in its order."""

import base64
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.proof.add_checkpoint import (
    REQUEST_BYTES_MAX,
    AddCheckpoint,
    WitnessRefusal,
    decide_checkpoint,
)
from kernel.proof.checkpoint import SignedCheckpoint
from kernel.proof.signed_note import NoteSignature, SignedNote
from kernel.proof.signing_keys import KeyKind
from kernel.proof.verification import ProofInvalid
from tests.kernel.test_checkpoint import LITEWITNESS
from tests.signed_log import SignedLog, log_key, witness_key

LOG = SignedLog(20)
REWRITTEN = SignedLog(20, 3)


def request(old_size, size, log=LOG):
    return AddCheckpoint(old_size, tuple(log.path(old_size, size)), log.signed(size))


def refusal(asked_for, latest=None, verifiers=LOG.verifiers):
    with pytest.raises(WitnessRefusal) as refused:
        decide_checkpoint(asked_for, verifiers, latest)
    return refused.value


@given(st.data())
def test_what_goes_on_from_the_latest_is_cosigned(data):
    size = data.draw(st.integers(0, 20))
    old_size = data.draw(st.integers(0, size))
    latest = LOG.signed(old_size) if old_size else None
    read = AddCheckpoint.of_bytes(request(old_size, size).to_bytes())
    assert read == request(old_size, size)
    assert decide_checkpoint(read, LOG.verifiers, latest) == LOG.signed(size)


def test_an_unknown_log_is_404_before_its_signature_is_looked_at():
    assert refusal(request(0, 5), verifiers=()).status == 404


def test_a_checkpoint_that_no_known_key_signed_is_403():
    stranger = SignedLog(5, keys=(log_key(seed=b"s"),))
    assert refusal(request(0, 5, stranger)).status == 403
    [line] = LOG.signed(5).note.signatures
    broken = NoteSignature(line.name, line.key_id, bytes(64))
    checkpoint = LOG.signed(5).with_signatures([broken])
    assert refusal(AddCheckpoint(0, (), checkpoint)).status == 403


def test_an_old_size_beyond_the_checkpoint_is_400():
    assert refusal(replace(request(5, 5), old_size=6), LOG.signed(6)).status == 400


@pytest.mark.parametrize(("old_size", "latest"), [(0, 4), (3, 4), (5, 4), (5, 0)])
def test_another_old_size_than_the_latest_is_409_with_its_size(old_size, latest):
    refused = refusal(request(old_size, 9), LOG.signed(latest) if latest else None)
    assert (refused.status, refused.size) == (409, latest)
    assert refused.equivocation is None


def test_another_root_at_the_size_of_the_latest_is_409_and_evidence():
    for old_size in (9, 5):
        refused = refusal(replace(request(9, 9, REWRITTEN), old_size=old_size), LOG.signed(9))
        assert (refused.status, refused.size) == (409, 9)
        refused.equivocation.check(LOG.verifiers)


def test_a_proof_that_does_not_hold_is_422():
    honest = request(5, 9)
    for path in ((), honest.path[:-1], (*honest.path, bytes(32)), (bytes(32),) * 3):
        refused = refusal(replace(honest, path=path), LOG.signed(5))
        assert (refused.status, refused.equivocation) == (422, None)
    for nothing in (request(0, 9), request(9, 9)):
        latest = LOG.signed(nothing.old_size) if nothing.old_size else None
        assert refusal(replace(nothing, path=(bytes(32),)), latest).status == 422


def test_a_log_that_was_written_anew_is_422_and_leaves_evidence():
    refused = refusal(request(5, 9, REWRITTEN), LOG.signed(5))
    assert refused.status == 422
    refused.equivocation.check(LOG.verifiers)
    # Of a complete tree a proof holds no node that would tell the two apart (kernel/0351).
    refused = refusal(request(8, 9, REWRITTEN), LOG.signed(8))
    assert (refused.status, refused.equivocation) == (422, None)


def test_only_the_signatures_of_the_log_are_kept():
    keys = (log_key(), log_key(kind=KeyKind.ML_DSA_44))
    log = SignedLog(5, keys=keys)
    crowded = log.signed(5).sign(witness_key(1), 7).sign(log_key(seed=b"x"))
    twice = SignedNote(crowded.note.text, crowded.note.signatures * 2)
    signed = decide_checkpoint(
        AddCheckpoint(0, (), SignedCheckpoint(twice, crowded.stated)), log.verifiers, None
    )
    assert signed.note.signatures == log.signed(5).note.signatures[:1] + signed.note.signatures[1:]
    assert [line.key_id for line in signed.note.signatures] == [
        verifier.key_id for verifier in log.verifiers
    ]


def test_the_example_of_others_is_read():
    content = b"old 0\n\n" + LITEWITNESS["note"].encode()
    assert AddCheckpoint.of_bytes(content).checkpoint.stated.origin == "example.com/mldsa-log"
    assert AddCheckpoint.of_bytes(content).to_bytes() == content


GOOD = request(5, 9).to_bytes()
HASH = base64.b64encode(bytes(32))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"old 5\n",
        GOOD.replace(b"old 5", b"old 05"),
        GOOD.replace(b"old 5", b"old -5"),
        GOOD.replace(b"old 5", b"old  5"),
        GOOD.replace(b"old 5", b"old"),
        GOOD.replace(b"old 5", b"old 5\r"),
        GOOD.replace(b"old 5", b"old 99999999999999999999"),
        GOOD.replace(b"old 5\n", b"old 5\nAAAA\n"),
        GOOD.replace(b"old 5\n", b"old 5\n!\n"),
        GOOD.replace(b"old 5\n", b"old 5\n\xc3\xa9\n"),
        GOOD.replace(b"old 5\n", b"old 5\n" + 64 * (HASH + b"\n")),
        GOOD.replace(b"old 5\n", b"old 5\n\n"),
        GOOD[:-1],
        GOOD + b"\n" * REQUEST_BYTES_MAX,
    ],
)
def test_what_is_no_request_is_refused(content):
    with pytest.raises(ProofInvalid):
        AddCheckpoint.of_bytes(content)


@given(st.data())
def test_whatever_a_stranger_sends_is_cosigned_only_where_it_is_the_log(data):
    content = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place : place + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    try:
        signed = decide_checkpoint(
            AddCheckpoint.of_bytes(bytes(content)), LOG.verifiers, LOG.signed(5)
        )
    except (ProofInvalid, WitnessRefusal):
        return
    assert signed == LOG.signed(9)
