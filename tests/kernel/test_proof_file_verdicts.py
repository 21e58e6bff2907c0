"""The verdict on a checkpoint inside a proof file: ours and the two files that stand alone agree.

Notes and policies are drawn at random, honest and mutated, and judged by `checkpoint_verdict`, by
`proof_file.py` and by `proof_file.mjs`. Of ML-DSA-44 the script says that it cannot verify it where
Node cannot.
"""

import json
import random

import pytest

from kernel.proof import proof_file
from kernel.proof.checkpoint import SignedCheckpoint
from kernel.proof.checkpoint_verdict import CheckpointVerdict, judge_checkpoint
from kernel.proof.proof_file import ProofFileInvalid, verify_proof_file
from kernel.proof.signed_note import NOTE_BYTES_MAX, SignedNote
from kernel.proof.signing_keys import KeyKind
from kernel.proof.witness_policy import PolicyInvalid, WitnessPolicy
from tests.proof_verifiers import NODE, asked_of_the_script
from tests.signed_log import SignedLog, log_key, witness_key

pytestmark = pytest.mark.spec("P5")

LOG = SignedLog(7, keys=(log_key(), log_key(seed=b"o")))
ML_DSA_LOG = log_key(kind=KeyKind.ML_DSA_44)
ML_DSA_WITNESS = witness_key(9, KeyKind.ML_DSA_44)
WITNESSES = [witness_key(number) for number in range(1, 5)]
STRANGER = witness_key(8)
TIMES_S = (0, 1_700_000_000, (1 << 63) - 1)
CASES = 400

needs_node = pytest.mark.skipif(NODE is None, reason="there is no node on the path")


def file_of(note):
    """A proof that a log goes on from itself, which is worth what its checkpoint is worth."""
    stated = {"old_checkpoint": note.decode(), "checkpoint": note.decode(), "path": []}
    return json.dumps({"format": proof_file.FORMAT, "kind": "consistency"} | stated).encode()


def ours(note, policy, vkeys=()):
    """The verdict of the library, None where it is invalid."""
    try:
        judgement = judge_checkpoint(note, WitnessPolicy.of_bytes(policy))
    except PolicyInvalid:
        return None
    document = judgement.document()
    names = ("verdict", "message", "witnesses", "witnesses_known", "quorum_met", "tree_head")
    invalid = judgement.verdict is CheckpointVerdict.INVALID
    return None if invalid else {name: document[name] for name in names}


def of_the_file(note, policy):
    try:
        return shared(verify_proof_file(file_of(note), policy=policy))
    except ProofFileInvalid:
        return None


def shared(proved):
    names = ("verdict", "message", "witnesses", "witnesses_known", "quorum_met", "tree_head")
    return proved and {name: proved[name] for name in names}


def of_the_script(cases):
    questions = (
        {"kind": "file", "content": file_of(note).hex(), "vkeys": [], "policy": policy.hex()}
        for note, policy in cases
    )
    return [shared(proved) for proved in asked_of_the_script(questions)]


def a_note(chance):
    keys = [key for key in LOG.keys if chance.randrange(3)]
    note = SignedLog(7, keys=keys or [log_key(seed=b"x")]).signed(chance.randint(0, 7))
    for key in chance.sample([*WITNESSES, STRANGER], chance.randint(0, 4)):
        note = note.sign(key, chance.choice(TIMES_S))
    if not chance.randrange(6):
        other = SignedLog(7, 3).signed(7).sign(chance.choice(WITNESSES), 7)
        note = note.with_signatures(other.note.signatures[-1:])
    if not chance.randrange(4):
        lines = chance.sample(note.note.signatures, len(note.note.signatures))
        note = SignedCheckpoint(SignedNote(note.note.text, tuple(lines)), note.stated)
    return note.to_bytes()


def a_policy(chance):
    named = chance.sample([*enumerate(WITNESSES, start=1)], chance.randint(0, 4))
    lines = [f"log {key.verifier.vkey}" for key in LOG.keys if chance.randrange(5)]
    lines += [f"witness w{n} {key.verifier.vkey} https://w.example" for n, key in named]
    names, grouped = [f"w{n}" for n, _ in named], []
    for number in range(chance.randint(0, 2)):
        free = [name for name in names + grouped if not chance.randrange(2)]
        if free:
            enough = chance.choice(["any", "all", str(chance.randint(1, len(free)))])
            lines.append(f"group g{number} {enough} {' '.join(free)}")
            grouped = [f"g{number}"]
            names = [name for name in names if name not in free]
    known = [line.split(" ")[1] for line in lines if not line.startswith("log")]
    lines.append(f"quorum {chance.choice(['none', 'w1', *known, *known])}")
    return ("\n".join(lines) + "\n").encode()


def spoiled(content, chance):
    """The same with a byte changed, cut out or put in, mostly with nothing done to it."""
    if chance.randrange(4) or not content:
        return content
    place = chance.randrange(len(content))
    byte = bytes([chance.choice([content[place] ^ 1, 0x20, 0x0A, 0x2B, 0x3D, 0x41, 0x7F, 0x30])])
    return (
        content[:place]
        + chance.choice([byte, b"", content[place : place + 1] + byte])
        + (content[place + 1 :])
    )


def text_of(note):
    try:
        note.decode()
    except UnicodeDecodeError:
        return False
    return True


@pytest.fixture(scope="module")
def cases():
    chance = random.Random(18)
    drawn = []
    while len(drawn) < CASES:
        note, policy = spoiled(a_note(chance), chance), spoiled(a_policy(chance), chance)
        if text_of(note):
            drawn.append((note, policy))
    return drawn


def test_ours_and_the_file_give_one_verdict(cases):
    verdicts = [ours(note, policy) for note, policy in cases]
    for case, verdict in zip(cases, verdicts, strict=True):
        assert of_the_file(*case) == verdict, case
    said = [verdict and verdict["verdict"] for verdict in verdicts]
    assert min(said.count(verdict) for verdict in (None, "unwitnessed", "witnessed")) > CASES // 10


@needs_node
def test_ours_and_the_script_give_one_verdict(cases):
    assert of_the_script(cases) == [ours(note, policy) for note, policy in cases]


W = [key.verifier.vkey for key in WITNESSES]
GOOD = LOG.signed(5).sign(WITNESSES[0], 7).to_bytes()


POLICIES = [
    b"witness W %s\nquorum W",
    b"witness \xff %s\nquorum \xff",
    b"witness \xc3\xa9 %s\nquorum \xc3\xa9",
    b"\t witness  W\t%s \n#x\n\n \nquorum W",
    b"witness W %s\nwitness V %s\ngroup g 2 W V\nquorum g",
    b"witness W %s\nwitness V %s\ngroup g any W V\ngroup h all g\nquorum h",
    b"witness W %s\nwitness V %s\ngroup g any W\ngroup h any W\nquorum g",
    b"witness W %s\nwitness V %s\ngroup g all W W\nquorum g",
    b"witness W %s\nwitness W %s\nquorum W",
    b"witness none %s\nquorum none",
    b"witness W %s\ngroup g 01 W\nquorum g",
    b"witness W %s\ngroup g 2 W\nquorum g",
    b"witness W %s\ngroup g constructor W\nquorum g",
    b"witness constructor %s\ngroup __proto__ any constructor\nquorum __proto__",
    b"quorum W\nwitness W %s",
    b"witness W %s\nquorum W\nquorum W",
    b"witness W %s\nquorum\xc2\xa0W",
    b"witness W %s\xc2\x85\nquorum W",
    b"witness W %s\xc2\xa0\nquorum W",
    b"witness W %s\nquorum W\r",
    b"witness W %s a b\nquorum W",
    b"witness\nquorum none",
    b"witness W\nquorum none",
    b"log\nquorum none",
    b"",
    b"nothing",
]


def test_policies_are_read_alike():
    known = f"log {LOG.verifiers[0].vkey}\n".encode()
    policies = [
        known + policy % tuple(W[number].encode() for number in range(policy.count(b"%s")))
        for policy in POLICIES
    ]
    assert_agreed([(GOOD, policy) for policy in policies])


def assert_agreed(cases):
    expected = [ours(*case) for case in cases]
    assert [of_the_file(*case) for case in cases] == expected
    if NODE is not None:
        assert of_the_script(cases) == expected


NOTES = [
    GOOD + b"junk\n",
    GOOD + b"\n",
    GOOD[:-1],
    GOOD.replace(b"\n5\n", b"\n05\n"),
    GOOD.replace(b"\xe2\x80\x94", b"-", 1),
    GOOD + b"\xe2\x80\x94 x AAAA\n",
    GOOD + b"\xe2\x80\x94 x AAAAAA==\n",
    GOOD + b"\xe2\x80\x94 x AAAAAB==\n",
    GOOD + b"\xe2\x80\x94 x AAAAAAA=\n",
    GOOD + b"\xe2\x80\x94 x y AAAAAAA=\n",
    GOOD + "\u2014 x\u00a0y AAAAAAA=\n".encode(),
    GOOD + "\u2014 é\U0001f600 AAAAAAA=\n".encode(),
    GOOD + b"\xe2\x80\x94 %s AAAAAAA=\n" % (b"n" * 256),
    GOOD.replace(b"\n5\n", b"\n5\x7f\n"),
    GOOD.replace(b"\n5\n", b"\n\t5\n"),
    GOOD + b"\xe2\x80\x94 x AAAAAAA=\n" * (NOTE_BYTES_MAX // 16),
]


def test_notes_are_read_alike():
    policy = f"log {LOG.verifiers[0].vkey}\nwitness W {W[0]}\nquorum W".encode()
    assert_agreed([(note, policy) for note in NOTES])


def test_of_several_keys_of_a_log_each_must_have_signed():
    one_signed = SignedLog(7, keys=LOG.keys[:1]).signed(5).to_bytes()
    first, second = (key.vkey for key in LOG.verifiers)
    assert verify_proof_file(file_of(one_signed), first)["verdict"] == "unwitnessed"
    assert verify_proof_file(file_of(GOOD), first, second)["verifies"]
    for vkeys in ((first, second), (second,), (log_key("other").verifier.vkey, first), ()):
        with pytest.raises(ProofFileInvalid):
            verify_proof_file(file_of(one_signed), *vkeys)
    if NODE is not None:
        content = file_of(one_signed).hex()
        question = {"kind": "file", "content": content, "policy": None}
        said = asked_of_the_script(
            question | {"vkeys": vkeys} for vkeys in ([first], [first, second], [second], [])
        )
        assert [proved is not None for proved in said] == [True, False, False, False]


ML_DSA_NOTE = (
    SignedLog(7, keys=(log_key(), ML_DSA_LOG)).signed(5).sign(ML_DSA_WITNESS, 7).to_bytes()
)
ML_DSA_POLICY = (
    f"log {ML_DSA_LOG.verifier.vkey}\nlog {log_key().verifier.vkey}\n"
    f"witness W {ML_DSA_WITNESS.verifier.vkey}\nquorum W"
).encode()


def test_signatures_of_ml_dsa_44_count_where_they_can_be_verified():
    proved = verify_proof_file(file_of(ML_DSA_NOTE), policy=ML_DSA_POLICY)
    assert (proved["verdict"], proved["not_verified"]) == ("witnessed", [])
    assert shared(proved) == ours(ML_DSA_NOTE, ML_DSA_POLICY)
    assert verify_proof_file(file_of(ML_DSA_NOTE), ML_DSA_LOG.verifier.vkey)["verifies"]
    place = ML_DSA_NOTE.rindex(b"\n", 0, -1) - 90
    changed = (
        ML_DSA_NOTE[:place]
        + (b"A" if ML_DSA_NOTE[place] != 65 else b"B")
        + (ML_DSA_NOTE[place + 1 :])
    )
    assert (of_the_file(changed, ML_DSA_POLICY), ours(changed, ML_DSA_POLICY)) == (None, None)


def test_what_cannot_be_verified_does_not_count_and_is_named(monkeypatch):
    monkeypatch.setattr(proof_file, "MLDSA44PublicKey", None)
    assert_not_counted(
        lambda vkeys, policy: verify_proof_file(file_of(ML_DSA_NOTE), *vkeys, policy=policy)
    )


@needs_node
def test_the_script_says_what_it_cannot_verify():
    def ask(vkeys, policy):
        question = {"kind": "file", "content": file_of(ML_DSA_NOTE).hex(), "vkeys": vkeys}
        [proved] = asked_of_the_script([question | {"policy": policy and policy.hex()}])
        if proved is None:
            raise ProofFileInvalid("nothing is proved")
        return proved

    if ask([], ML_DSA_POLICY)["not_verified"]:
        assert_not_counted(ask)
    else:
        assert shared(ask([], ML_DSA_POLICY)) == ours(ML_DSA_NOTE, ML_DSA_POLICY)
        assert ask([ML_DSA_LOG.verifier.vkey], None)["verifies"]


def assert_not_counted(ask):
    proved = ask([], ML_DSA_POLICY)
    assert (proved["verdict"], proved["quorum_met"]) == ("unwitnessed", False)
    assert proved["not_verified"] == ["example.com/log", ML_DSA_WITNESS.name]
    with pytest.raises(ProofFileInvalid):
        ask([ML_DSA_LOG.verifier.vkey], None)
    with pytest.raises(ProofFileInvalid):
        ask([log_key().verifier.vkey, ML_DSA_LOG.verifier.vkey], None)
