"""A hand-over of a log's keys: who has to sign it, and which key speaks at which size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.algebra.verbs import KEY_HANDOVER
from kernel.proof.checkpoint import Checkpoint
from kernel.proof.key_handover import KeyHandover, hand_over, key_for
from kernel.proof.seals import signatures_of
from kernel.proof.signing_keys import KeyKind
from kernel.proof.verification import ProofInvalid
from kernel.verify import verify
from tests.kernel.build import effect, envelope, memory_ledger, submit
from tests.signed_log import ORIGIN, SignedLog, handed_over, log_key

LOG = SignedLog(9, keys=(log_key(), log_key(kind=KeyKind.ML_DSA_44)))
NEW = (log_key(seed=b"n"), log_key(kind=KeyKind.ML_DSA_44, seed=b"m"))
NEWEST = (log_key(seed=b"x"), log_key(kind=KeyKind.ML_DSA_44, seed=b"y"))
HANDOVER = handed_over(LOG)


def verifiers(keys):
    return tuple(key.verifier for key in keys)


def test_every_key_of_a_handover_has_signed_it():
    again = KeyHandover.of_document(HANDOVER.document)
    assert (again.old, again.new) == (verifiers(LOG.keys), verifiers(NEW))
    assert again.last == LOG.stated(5)


@given(st.sampled_from(sorted(HANDOVER.document)), st.data())
def test_a_handover_of_which_anything_was_changed_is_none(name, data):
    document = dict(HANDOVER.document)
    if name == "signatures":
        kept = data.draw(st.sets(st.integers(0, 3), max_size=3))
        document[name] = [document[name][index] for index in sorted(kept)]
    elif name.endswith("_keys"):
        document[name] = data.draw(st.lists(st.sampled_from(document[name]), max_size=1))
    else:
        document[name] = data.draw(st.text(max_size=70).filter(lambda text: text != document[name]))
    with pytest.raises(ProofInvalid):
        KeyHandover.of_document(document)


@given(st.recursive(st.none() | st.integers() | st.text(), st.lists))
def test_what_a_stranger_sends_is_no_handover(value):
    for document in (value, {"signatures": value}, HANDOVER.document | {"old_keys": value}):
        with pytest.raises(ProofInvalid):
            KeyHandover.of_document(document)


def test_a_handover_is_within_one_log_and_to_other_keys():
    stranger = log_key("example.com/other")
    for old, new in ((LOG.keys, LOG.keys), (LOG.keys, (stranger,)), ((), NEW), (LOG.keys, ())):
        with pytest.raises(ProofInvalid):
            hand_over(LOG.stated(5), old, new)
    document = HANDOVER.document | {"tree_size": "05"}
    document["signatures"] = signatures_of(document, (*LOG.keys, *NEW))
    with pytest.raises(ProofInvalid):
        KeyHandover.of_document(document)


def test_a_signature_over_a_handover_is_none_over_a_checkpoint():
    note = f"{HANDOVER.document['format']}\n"
    with pytest.raises(ProofInvalid):
        Checkpoint.of_text(f"{note}{{}}\n")


def test_the_key_of_a_kind_is_followed_from_size_to_size():
    later = hand_over(LOG.stated(8), NEW, NEWEST)
    for old, new, newest in zip(LOG.keys, NEW, NEWEST, strict=True):
        for size, key in ((4, old), (5, old), (6, new), (8, new), (9, newest)):
            assert key_for(old.verifier, [later, HANDOVER], size) == key.verifier
    stranger = log_key(seed=b"s").verifier
    assert key_for(stranger, [HANDOVER], 9) == stranger
    alone = hand_over(LOG.stated(5), LOG.keys, NEW[:1])
    with pytest.raises(ProofInvalid):
        key_for(LOG.keys[1].verifier, [alone], 9)


def stated(document, **changes):
    receipt = effect("receipt_only", **document)
    receipt |= {"receipt_subkind": "checkpoint_key_handed_over"}
    fields = {"actor": "system", "target_refs": [f"log:{ORIGIN}"], **changes}
    return envelope(KEY_HANDOVER, [receipt], **fields)


def test_an_operation_is_a_handover_or_is_refused():
    ledger = memory_ledger()
    forged = stated(HANDOVER.document | {"tree_size": "4"})
    refused = submit(ledger, forged, submitter="orchestrator")
    assert refused.rejection.reason_code == "key_handover_invalid"
    by_caller = submit(ledger, stated(HANDOVER.document, actor="user"))
    assert by_caller.rejection.reason_code == "envelope_actor_unauthorized"
    accepted = submit(ledger, stated(HANDOVER.document), submitter="orchestrator")
    assert accepted.ec_sequence_number == 1
    with ledger.view() as view:
        assert verify(view).findings == ()
