"""Seals of sessions and rounds: what a signature binds, and how rounds follow each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.proof.checkpoint import SignedCheckpoint
from kernel.proof.rounds import round_genesis, round_seal
from kernel.proof.seals import (
    SESSION_SEAL,
    check_signatures,
    note_text,
    seal_bytes,
    seal_hash,
    signatures_of,
)
from kernel.proof.signing_keys import KeyKind, NoteVerifier, SeedKey
from kernel.proof.verification import ProofInvalid
from kernel.values.canonical import canonicalize

SIGNERS = [
    SeedKey("example.com/agent", KeyKind.ED25519, b"a" * 32),
    SeedKey("arbiter.example", KeyKind.ED25519, b"b" * 32),
]
SEAL = {
    "format": SESSION_SEAL,
    "algorithm": "eta-dup-sha256-v1",
    "session_id": "s-1",
    "leaf_count": 5,
    "eta_root": "ab" * 32,
    "round_number": 3,
    "sealed_at": "2026-02-09T10:00:00.000001Z",
}
AT = "2026-02-09T10:00:00.000001Z"


def session(name: str) -> dict[str, object]:
    return {"session_id": name, "leaf_count": 2, "eta_root": "cd" * 32, "seal_sequence": "9"}


@pytest.mark.spec("P4", "002 Integration with consensus (future)")
@pytest.mark.parametrize("count", [0, 1, 2])
def test_whoever_signs_signs_the_whole_seal(count):
    signatures = signatures_of(SEAL, SIGNERS[:count])
    assert check_signatures(SEAL, signatures) == [signer.verifier for signer in SIGNERS[:count]]
    for field in SEAL.keys() - {"format"}:
        changed = SEAL | {field: 6 if field == "leaf_count" else "other"}
        for signature in signatures:
            with pytest.raises(ProofInvalid, match="does not fit"):
                check_signatures(changed, [signature])


def test_a_seal_is_the_same_with_and_without_its_signatures():
    signed = SEAL | {"signatures": signatures_of(SEAL, SIGNERS)}
    assert seal_bytes(signed) == canonicalize(SEAL)
    assert seal_hash(signed) == seal_hash(SEAL)


def test_the_text_that_is_signed_is_no_checkpoint():
    [signature] = signatures_of(SEAL, SIGNERS[:1])
    note = note_text(SEAL) + b"\n" + f"{signature['line']}\n".encode()
    with pytest.raises(ProofInvalid, match="no checkpoint"):
        SignedCheckpoint.of_bytes(note)


@given(st.sampled_from(["vkey", "line"]), st.data())
def test_a_changed_key_or_signature_is_refused(name, data):
    [signature] = signatures_of(SEAL, SIGNERS[:1])
    at = data.draw(st.integers(0, len(signature[name]) - 1))
    other = data.draw(st.characters(codec="utf-8"))
    changed = signature[name][:at] + other + signature[name][at + 1 :]
    try:
        keys = check_signatures(SEAL, [signature | {name: changed}])
    except ProofInvalid:
        return
    assert keys == [SIGNERS[0].verifier]


def test_a_signature_names_its_own_key():
    [mine], [other] = signatures_of(SEAL, SIGNERS[:1]), signatures_of(SEAL, SIGNERS[1:])
    with pytest.raises(ProofInvalid):
        check_signatures(SEAL, [{"vkey": mine["vkey"], "line": other["line"]}])
    assert NoteVerifier.of_vkey(mine["vkey"]) == SIGNERS[0].verifier


def test_a_key_that_signs_no_texts_signs_no_seal():
    [signature] = signatures_of(SEAL, [SeedKey("example.com/agent", KeyKind.ML_DSA_44, b"a" * 32)])
    with pytest.raises(ProofInvalid, match="no key that signs a seal"):
        check_signatures(SEAL, [signature])


@pytest.mark.spec("002 Interaction with rounds")
def test_a_genesis_embeds_the_roots_of_the_seal_before_it():
    first = round_genesis(None, AT)
    assert (first["round_number"], first["parents"], first["parent_seal_hash"]) == (1, [], "0" * 64)
    seal = round_seal(first, [session("a"), session("b")], AT, "command")
    assert seal["genesis_hash"] == seal_hash(first)
    second = round_genesis(seal, AT)
    assert second["round_number"] == 2
    assert second["parents"] == [session("a"), session("b")]
    assert second["parent_seal_hash"] == seal_hash(seal)


@pytest.mark.spec("002 Interaction with rounds")
def test_a_seal_commits_to_every_session_of_every_round_before_it():
    def newest(first_root: str) -> str:
        sessions = [session("a") | {"eta_root": first_root}]
        seal = round_seal(round_genesis(None, AT), sessions, AT, "count")
        for _ in range(3):
            seal = round_seal(round_genesis(seal, AT), [session("b")], AT, "time")
        return seal_hash(seal)

    assert newest("cd" * 32) == newest("cd" * 32) != newest("ce" * 32)
