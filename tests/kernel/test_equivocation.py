"""Evidence that a log has signed two histories: what proves it, and what does not."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.proof.equivocation import (
    EVIDENCE_BYTES_MAX,
    Equivocation,
    EvidenceInvalid,
    equivocation_of,
    full_path,
)
from tests.signed_log import SignedLog, log_key

LOG = SignedLog(40)


def evidence(log, old_size, size, other):
    path = [] if old_size == size else full_path(old_size, size, other.node)
    return equivocation_of(other.signed(size), log.signed(old_size), path)


@given(st.data())
def test_two_histories_are_proved_from_any_two_sizes(data):
    """Also where the smaller tree is complete, which a consistency proof leaves out."""
    size = data.draw(st.integers(1, 40))
    old_size = data.draw(st.integers(1, size))
    common = data.draw(st.integers(0, old_size - 1))
    equivocation = evidence(LOG, old_size, size, SignedLog(size, common))
    kept = Equivocation.of_bytes(equivocation.to_bytes())
    assert kept == equivocation
    kept.check(LOG.verifiers)


@given(st.data())
def test_a_log_that_only_grew_cannot_be_accused(data):
    size = data.draw(st.integers(1, 40))
    old_size = data.draw(st.integers(1, size))
    assert evidence(LOG, old_size, size, LOG) is None
    path = data.draw(st.lists(st.binary(min_size=32, max_size=32), max_size=7))
    assert equivocation_of(LOG.signed(old_size), LOG.signed(size), path) is None


def test_what_others_signed_is_no_evidence():
    stranger = SignedLog(9, 5, keys=(log_key(seed=b"s"),))
    forged = evidence(LOG, 9, 9, stranger)
    with pytest.raises(EvidenceInvalid, match="not signed by the log"):
        forged.check(LOG.verifiers)
    other = SignedLog(9, keys=(log_key("example.com/other"),))
    assert equivocation_of(LOG.signed(9), other.signed(9)) is None
    after_rotation = [*LOG.verifiers, *stranger.verifiers]
    forged.check(after_rotation)


@pytest.fixture(scope="module")
def content():
    return evidence(LOG, 5, 9, SignedLog(9, 3)).to_bytes()


@given(st.data())
def test_evidence_with_any_byte_changed_accuses_of_nothing_else(content, data):
    place = data.draw(st.integers(0, len(content) - 1))
    changed = bytearray(content)
    changed[place] ^= data.draw(st.integers(1, 255))
    try:
        equivocation = Equivocation.of_bytes(bytes(changed))
        equivocation.check(LOG.verifiers)
    except EvidenceInvalid:
        return
    sides = (equivocation.first.stated, equivocation.second.stated)
    assert [side.size for side in sides] == [5, 9]


def test_the_larger_checkpoint_does_not_stand_first(content):
    equivocation = Equivocation.of_bytes(content)
    turned = Equivocation(equivocation.second, equivocation.first, equivocation.path)
    with pytest.raises(EvidenceInvalid, match="not the smaller"):
        turned.check(LOG.verifiers)


@pytest.mark.parametrize(
    "document",
    [
        {},
        [],
        None,
        {"format": "rotulus-evidence/v1", "checkpoints": [], "path": []},
        {"format": "rotulus-evidence/v1", "checkpoints": [1, 2], "path": []},
        {"format": "rotulus-evidence/v1", "checkpoints": ["", ""], "path": ["zz"]},
        {"checkpoints": ["a", "b"], "path": 7},
    ],
)
def test_what_is_no_evidence_is_refused(document):
    with pytest.raises(EvidenceInvalid):
        Equivocation.of_bytes(orjson.dumps(document))


def test_a_file_without_end_is_refused(content):
    with pytest.raises(EvidenceInvalid, match="too large"):
        Equivocation.of_bytes(content + b" " * EVIDENCE_BYTES_MAX)
    document = orjson.loads(content)
    for change in ({"format": "other"}, {"path": ["00" * 32] * 200}):
        with pytest.raises(EvidenceInvalid):
            Equivocation.of_bytes(orjson.dumps(document | change))
