"""ζ: records that follow each other, and what is found where they do not."""

import json
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.proof.thought_chain import (
    ThoughtChainBroken,
    ThoughtRecord,
    chain_head,
    content_hash,
)
from kernel.values.canonical import GENESIS_HASH, canonicalize

TEXTS = st.text(min_size=1, max_size=40).filter(lambda text: text.isprintable())


def record(sequence: int, prev_hash: str, **changes: object) -> bytes:
    fields = {
        "session_id": "s-1",
        "sequence": sequence,
        "thought_id": f"t-{sequence}",
        "thought_type": "analysis",
        "content_commitment": sha256(str(sequence).encode()).hexdigest(),
        "recorded_at": "2026-02-09T10:00:00.000001Z",
        "prev_hash": prev_hash,
    }
    return ThoughtRecord(**(fields | changes)).to_bytes()


def chain(count: int) -> list[bytes]:
    records, head = [], GENESIS_HASH
    for sequence in range(1, count + 1):
        records.append(record(sequence, head))
        head = content_hash(records[-1])
    return records


RECORDS = chain(40)


@given(session_id=TEXTS, thought_id=TEXTS)
def test_a_record_is_canonical_and_says_what_it_follows_at_one_place(session_id, thought_id):
    head = content_hash(RECORDS[-1])
    content = record(41, head, session_id=session_id, thought_id=thought_id)
    document = json.loads(content)
    assert canonicalize(document) == content
    assert document["prev_hash"] == head
    assert chain_head([content], after=40, head=head) == sha256(content).hexdigest()
    assert content.startswith(b"{")
    assert len(content) > 64, "no node of the tree has the bytes of a record"


@pytest.mark.spec("002 The tree")
def test_the_head_is_the_content_hash_of_the_last_thought():
    assert chain_head(RECORDS) == sha256(RECORDS[-1]).hexdigest()
    assert chain_head([]) == GENESIS_HASH
    middle = chain_head(RECORDS[:15])
    assert chain_head(RECORDS[15:], after=15, head=middle) == chain_head(RECORDS)


@given(st.integers(0, 38), st.data())
def test_any_changed_byte_is_found_at_the_record_behind_it(at, data):
    place = data.draw(st.integers(0, len(RECORDS[at]) - 1))
    content = bytearray(RECORDS[at])
    content[place] ^= 1
    with pytest.raises(ThoughtChainBroken) as broken:
        chain_head([*RECORDS[:at], bytes(content), *RECORDS[at + 1 :]])
    assert broken.value.sequence in (at + 1, at + 2)


@pytest.mark.parametrize(
    "records",
    [
        RECORDS[1:],
        RECORDS[:5] + RECORDS[6:],
        [*RECORDS[:5], RECORDS[6], RECORDS[5], *RECORDS[7:]],
        [*RECORDS[:5], RECORDS[4], *RECORDS[5:]],
    ],
    ids=["the first is gone", "one is gone", "two are swapped", "one is there twice"],
)
def test_records_that_are_gone_swapped_or_repeated_are_found(records):
    with pytest.raises(ThoughtChainBroken):
        chain_head(records)


def test_a_record_that_is_shorter_than_its_link_is_found():
    with pytest.raises(ThoughtChainBroken) as broken:
        chain_head([RECORDS[0], b"{}"])
    assert broken.value.sequence == 2
