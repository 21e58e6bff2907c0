"""Proofs of thoughts that a log made up: the two files that stand alone take the same ones.

Whoever owns a log signs what he likes, so nothing behind a commitment has to be what the kernel
writes. Each case is a log of one row, whose envelope states a seal of a session of three thoughts.
"""

import base64
import json
from hashlib import sha256

import pytest

from actors.commit.thought_units import (
    ChainVerifiedUnit,
    FinalizeUnit,
    RecordThoughtUnit,
    Sealing,
    StartAuditSessionUnit,
)
from kernel.audit.proofs import proof_document, thought
from kernel.ledger.archive_segment import SEGMENT_ROWS
from kernel.ledger.ledger import Ledger, blob_commitment
from kernel.ledger.store.memory import MemoryStore
from kernel.proof.checkpoint import Checkpoint, sign_checkpoint
from kernel.proof.merkle_tree import inclusion_path, leaf_hash, root_of
from kernel.proof.proof_file import FORMAT, ProofFileInvalid, verify_proof_file
from kernel.proof.seals import signatures_of
from kernel.proof.signing_keys import KeyKind
from kernel.proof.tiles import subtree_root
from kernel.thoughts.reading import read_chain
from tests.actors.harness import bench_on
from tests.kernel.archives import archive_next, collect_next, memory_archive
from tests.kernel.build import FakeHost, create, submit
from tests.proof_verifiers import NODE, asked_of_the_script
from tests.signed_log import ORIGIN, log_key

pytestmark = pytest.mark.spec("P1", "P4")

KEY, SALT = log_key(), b"s" * 32
SIGNER, OTHER = log_key("example.com/agent", seed=b"a"), log_key("example.com/b", seed=b"b")
ML_DSA = log_key("example.com/agent", KeyKind.ML_DSA_44, b"a")
ABSENT = object()


def record(number, **changes):
    stated = {
        "content_commitment": blob_commitment(SALT, b"what"),
        "format": "rotulus/thought/v1",
        "sequence": number,
        "session_id": "s é \u2028",
        "thought_id": f"t-{number}",
        **changes,
    }
    stated = {name: value for name, value in stated.items() if value is not ABSENT}
    return json.dumps(stated, ensure_ascii=False, separators=(",", ":"))


def seal_over(records):
    leaves = [sha256(text.encode()).digest() for text in records]
    pair = sha256(leaves[0] + leaves[1]).digest()
    alone = sha256(leaves[2] + leaves[2]).digest()
    hashes = [leaf_hash(text.encode()) for text in records]

    def node(level, index):
        return subtree_root(hashes[index << level : (index + 1) << level])

    seal = {
        "format": "rotulus/session-seal/v1",
        "algorithm": "eta-dup-sha256-v1",
        "session_id": "s é \u2028",
        "task_id": 'a "task"\t\u007f\U0001f600',
        "leaf_count": 3,
        "first_sequence": 1,
        "last_sequence": 3,
        "zeta_head": "0" * 64,
        "eta_root": sha256(pair + alone).hexdigest(),
        "rfc6962_root": root_of(3, node).hex(),
        "round_number": 1,
        "sealed_at": "now",
    }
    return seal, [leaves[0], alone], inclusion_path(1, 3, node)


def made(changes=None, *, signers=(SIGNER,), number=None, second=None, **envelope):
    """A file that proves the second of three thoughts; what is changed is signed as it is then."""
    records = [record(1), record(2, **(second or {})), record(3)]
    seal, eta_path, path = seal_over(records)
    seal = {name: value for name, value in (seal | (changes or {})).items() if value is not ABSENT}
    stated = seal | {"signatures": signatures_of(seal, signers)}
    if "signatures" in (changes or {}):
        stated["signatures"] = changes["signatures"]
    stated = {name: value for name, value in stated.items() if value is not ABSENT}
    effect = {"receipt_subkind": "session_sealed", "payload": stated}
    content = {"semantic_intent": "merkle_finalize", "primitive_effects": [effect], **envelope}
    text = json.dumps(content, ensure_ascii=False)
    # A number as somebody wrote it, which a reader may take for another one.
    text = text if number is None else text.replace('"leaf_count": 3', f'"leaf_count": {number}')
    row = {"ec_sequence_number": "1"}
    row["envelope_payload_blob_ref"] = blob_commitment(SALT, text.encode())
    row_text = json.dumps(row)
    stated = Checkpoint(ORIGIN, 1, leaf_hash(row_text.encode()))
    note = sign_checkpoint(stated, [KEY]).to_bytes().decode()
    return {
        "format": FORMAT,
        "kind": "thought",
        "row": row_text,
        "tlog_proof": f"c2sp.org/tlog-proof@v1\nindex 0\n\n{note}",
        "envelope": {"salt": SALT.hex(), "content": text},
        "thought": records[1],
        "content": {"salt": SALT.hex(), "content": "what"},
        "eta_path": [base64.b64encode(hashed).decode() for hashed in eta_path],
        "rfc6962_path": [base64.b64encode(hashed).decode() for hashed in path],
    }


def judged(document):
    content = json.dumps(document).encode()
    try:
        return verify_proof_file(content, KEY.verifier.vkey)
    except ProofFileInvalid:
        return None


def assert_all(documents, expected):
    judgements = [judged(document) for document in documents]
    assert [proved is not None for proved in judgements] == expected
    if NODE is not None:
        vkeys, policy = [KEY.verifier.vkey], None
        question = {"kind": "file", "vkeys": vkeys, "policy": policy}
        questions = [
            question | {"content": json.dumps(document).encode().hex()} for document in documents
        ]
        assert asked_of_the_script(iter(questions)) == judgements


TAKEN = [
    made(),
    made(signers=()),
    made(signers=(SIGNER, OTHER)),
    made(number="3.0"),
    made(number="3e0"),
    made({"round_number": 0}),
    made({"round_number": (1 << 53) - 1}),
    made({"task_id": ""}),
    made(primitive_effects_are="others"),
    {name: value for name, value in made().items() if name != "content"},
    made() | {"content": None},
    made(second={"more": [1, 2]}),
]

SIGNED = signatures_of(seal_over([record(1), record(2), record(3)])[0], (SIGNER,))
[LINE] = SIGNED

REFUSED = [
    *(made(number=number) for number in ("4", "2", "3.5", "1e999", "-3", '"3"', "true", "null")),
    *(made(number=number) for number in ("[3]", "300000000000000000000", "0", "-0", "NaN")),
    *(made({name: ABSENT}) for name in ("task_id", "leaf_count", "round_number", "eta_root")),
    *(made({name: 7}) for name in ("session_id", "task_id", "eta_root", "zeta_head", "sealed_at")),
    *(made({name: "00" * 32}) for name in ("eta_root", "rfc6962_root", "format", "algorithm")),
    made({"eta_root": seal_over([record(1), record(2), record(3)])[0]["eta_root"].upper()}),
    made({"eta_root": f" {seal_over([record(1), record(2), record(3)])[0]['eta_root']}"}),
    made({"session_id": "another"}),
    made({"further": 1}),
    made({"__proto__": "x"}),
    made(signers=(ML_DSA,)),
    made({"signatures": ABSENT}),
    *(made({"signatures": value}) for value in (None, {}, "", [None], [{}], [[]], [LINE["vkey"]])),
    made({"signatures": [LINE | {"vkey": OTHER.verifier.vkey}]}),
    made({"signatures": [LINE | {"line": LINE["line"][:-2] + "A="}]}),
    made({"signatures": [LINE | {"line": LINE["line"] + "\n"}]}),
    made({"signatures": signatures_of({"format": "x"}, (SIGNER,))}),
    made({"round_number": 2, "signatures": SIGNED}),
    made({"leaf_count": 3, "sealed_at": "then", "signatures": SIGNED}),
    made(semantic_intent="merkle_root"),
    *(made(primitive_effects=value) for value in ([], None, {}, [None], [[]], [{}], [{}, {}])),
    made(primitive_effects=[{"receipt_subkind": "round_sealed", "payload": {}}]),
    *(made(second={name: ABSENT}) for name in ("format", "sequence", "session_id")),
    made(second={"content_commitment": ABSENT}) | {"content": None},
    made(second={"content_commitment": 7}) | {"content": None},
    made(second={"format": "rotulus/thought/v2"}),
    made(second={"session_id": "another"}),
    *(made(second={"sequence": value}) for value in (1, 3, 0, -1, "2", None, True, 2.5, [2])),
]


def test_what_holds_is_taken_whatever_else_it_says():
    assert_all(TAKEN, [True] * len(TAKEN))


def test_what_does_not_hold_is_refused_though_the_log_signed_it():
    assert_all(REFUSED, [False] * len(REFUSED))


def test_a_member_of_another_type_is_refused():
    honest, documents = made(), []
    values = [None, 0, -1, 1.5, "", "x", [], {}, True, [[]], ["x"], "é", "\ud800", {"salt": 1}]
    for name in honest:
        documents += [honest | {name: value} for value in values if name != "content" or value]
    for name in ("salt", "content"):
        for member in ("envelope", "content"):
            documents += [honest | {member: honest[member] | {name: value}} for value in values]
    assert_all(documents, [False] * len(documents))


@pytest.mark.spec("P6")
def test_a_seal_in_the_archive_proves_as_before():
    host = FakeHost()
    ledger = Ledger.create(MemoryStore(), host.host, archive=memory_archive())

    def run(*units):
        for unit in units:
            with bench_on(ledger) as context, context.transaction.savepoint():
                unit.run(context)

    closing = RecordThoughtUnit("s", "t-2", "reflection", "what was done")
    run(StartAuditSessionUnit("s", "task"), RecordThoughtUnit("s", "t-1", "plan", "what"), closing)
    with ledger.view() as view:
        read = read_chain(view, "s")
    run(ChainVerifiedUnit("s", *read), FinalizeUnit("s", Sealing()))
    for number in range(SEGMENT_ROWS):
        submit(ledger, create(f"n-{number}", "Note"))
    assert archive_next(ledger)
    assert collect_next(ledger, host) == SEGMENT_ROWS
    with ledger.view() as view:
        tree = view.log_tree()
        stated = Checkpoint(ORIGIN, tree.size, tree.root())
        note = sign_checkpoint(stated, [KEY]).to_bytes().decode()
        subject = thought(view, "s:t-1", with_content=True)
        document = proof_document("thought", subject, tree, tree.size, note)
    assert judged(document)["content"] == "what"
