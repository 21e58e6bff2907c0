"""One verdict on a checkpoint: invalid, diverged, unwitnessed, witnessed k of n."""

from kernel.proof.checkpoint_verdict import CheckpointVerdict, judge_checkpoint
from kernel.proof.witness_policy import WitnessPolicy
from tests.signed_log import SignedLog, log_key, witness_key

LOG = SignedLog(7)
NOTE = LOG.signed(7)
WITNESSES = [witness_key(number) for number in (1, 2, 3)]
TIME_S = 1_700_000_000


def policy(quorum="two"):
    lines = [f"log {LOG.verifiers[0].vkey}"]
    lines += [f"witness w{n} {key.verifier.vkey}" for n, key in enumerate(WITNESSES, start=1)]
    lines += ["group two 2 w1 w2 w3", f"quorum {quorum}"]
    return WitnessPolicy.of_bytes("\n".join(lines).encode())


def verdict(note, quorum="two", compare=lambda _: None):
    judgement = judge_checkpoint(note.to_bytes(), policy(quorum), compare)
    return judgement.verdict, judgement.message, judgement.quorum_met


def cosigned(*witnesses):
    note = NOTE
    for witness in witnesses:
        note = note.sign(witness, TIME_S)
    return note


def test_a_checkpoint_without_witnesses_is_unwitnessed():
    said = "consistent but unwitnessed (0 of 3)"
    assert verdict(NOTE) == (CheckpointVerdict.UNWITNESSED, said, False)
    assert verdict(NOTE, "none") == (CheckpointVerdict.UNWITNESSED, said, True)


def test_witnesses_count_where_they_make_the_quorum():
    said = "consistent but unwitnessed (1 of 3)"
    assert verdict(cosigned(WITNESSES[0])) == (CheckpointVerdict.UNWITNESSED, said, False)
    assert verdict(cosigned(*WITNESSES[:2])) == (
        CheckpointVerdict.WITNESSED,
        "witnessed 2 of 3",
        True,
    )
    judgement = judge_checkpoint(cosigned(*WITNESSES).to_bytes(), policy())
    assert judgement.cosigned == tuple((f"w{n}", TIME_S) for n in (1, 2, 3))
    assert judgement.document()["tree_head"].startswith("7:")


def test_whom_the_policy_does_not_name_does_not_count():
    strangers = [witness_key(number) for number in (7, 8, 9)]
    said = "consistent but unwitnessed (0 of 3)"
    assert verdict(cosigned(*strangers)) == (CheckpointVerdict.UNWITNESSED, said, False)


def test_a_signature_that_does_not_hold_makes_the_whole_note_invalid():
    other = SignedLog(7, 3).signed(7).sign(WITNESSES[0], TIME_S)
    [*_, misplaced] = other.note.signatures
    forged = cosigned(*WITNESSES[1:]).with_signatures([misplaced])
    assert verdict(forged)[0] is CheckpointVerdict.INVALID
    of_nobody = SignedLog(7, keys=(log_key(seed=b"x"),)).signed(7)
    assert verdict(of_nobody)[0] is CheckpointVerdict.INVALID
    of_another = SignedLog(7, keys=(log_key("example.com/other"),)).signed(7)
    assert verdict(of_another)[0] is CheckpointVerdict.INVALID
    nothing = judge_checkpoint(b"no note", policy())
    assert (nothing.verdict, nothing.document()["tree_head"]) == ("invalid", None)


def test_a_log_that_is_another_one_is_diverged_however_many_witnesses_it_has():
    said = verdict(cosigned(*WITNESSES), compare=lambda stated: f"not these {stated.size} rows")
    assert said == (CheckpointVerdict.DIVERGED, "diverged: not these 7 rows", False)
