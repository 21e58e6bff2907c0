"""Records and trees of thoughts move to the archive once their round is cold (seed 002, tiers)."""

import gzip
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.audit.proofs import thought as prove_thought
from kernel.ledger import schema
from kernel.ledger.archive import Archive
from kernel.ledger.store.tables import TableQuery
from kernel.ledger.thought_segment import pack_thoughts, unpack_thoughts
from kernel.retention import thought_contents
from kernel.retention.archival import Retention
from kernel.retention.thought_records import cold_status
from kernel.values.errors import LedgerCorrupt, LedgerUnavailable
from kernel.verify import verify
from kernel.verify.archive import verify_archive
from tests.kernel.archives import MemoryFiles, memory_archive
from tests.kernel.build import receipts_of_kind
from tests.kernel.tampering import flipped
from tests.workers.api.door import Door
from tests.workers.api.test_erasures import GROUNDS
from tests.workers.api.test_thoughts import posted
from tests.workers.use_cases.test_thought_contents import Away, findings, session_id, thought
from workers.client.typed.thoughts import merkle_verify
from workers.use_cases.log_archiving import archive_some

pytestmark = [pytest.mark.anyio, pytest.mark.spec("002 Retention tiers")]
COUNTS = (1, 2, 3, 5, 6, 8)
"""Thoughts of the sessions of the first round; pages have two here."""

TABLES = (schema.thought_records, schema.merkle_nodes)
BOTH = Retention(rounds_kept=0, rounds_warm=1)


def name_of(count: int) -> str:
    return session_id(count)


OPEN, NEXT = session_id(70), session_id(80)


async def session(door: Door, name: str, count: int) -> None:
    path = f"thoughts/{name}"
    await posted(door, f"{path}/start", task_id="task")
    for number in range(1, count):
        body = {"thought_id": f"t-{number}", "thought_type": "plan", "content": f"plan {number}"}
        await posted(door, path, **body)
    await posted(door, f"{path}/verify")
    last = {"thought_id": f"t-{count}", "thought_type": "reflection", "content": "done \u00e9"}
    await posted(door, path, **last)
    await posted(door, f"{path}/finalize")


def rows_of(view) -> dict:
    """Return all records and nodes as whoever asks for a session reads them."""
    rows = {}
    for name in map(name_of, COUNTS):
        for table in TABLES:
            whole = view.tables.scan(TableQuery(table, {"session_id": name}))
            rows[name, table.name] = whole
            place = [*table.primary_key.columns][-1].name
            for row in whole:
                assert view.tables.get(table, name, row[place]) == row
                rest = view.tables.scan(
                    TableQuery(table, {"session_id": name}, after=row[place], limit=3)
                )
                assert rest == [other for other in whole if other[place] > row[place]][:3]
            assert view.tables.get(table, name, len(whole) + 1) is None
            assert view.tables.count(TableQuery(table, {"session_id": name})) == len(whole)
        named = {"session_id": name, "thought_id": "t-1"}
        first = view.tables.scan(TableQuery(schema.thought_records, named, limit=1))
        assert first == rows[name, "thought_records"][:1]
    return rows


def stored(door: Door) -> list[int]:
    """Return how many records and nodes are in the database."""
    with door.ledger.store.view() as tables:
        return [tables.count(TableQuery(table)) for table in TABLES]


async def archived(door: Door, retention: Retention = BOTH) -> int:
    """Take all steps that are due; return how many thoughts moved."""
    moved, is_complete = 0, False
    while not is_complete:
        done = await archive_some(door.ledger, door.services.write, retention)
        moved, is_complete = moved + done.thoughts_moved, done.is_complete
    return moved


async def http(door: Door, path: str) -> dict:
    return (await door.http.get(f"/v1/{path}")).json()


def segments_of(door: Door, name: str) -> list[dict]:
    with door.ledger.view() as view:
        where = {"session_id": name}
        return view.tables.scan(
            TableQuery(schema.thought_segments, where, order_by="first_sequence")
        )


@pytest.fixture
async def old(door: Door, monkeypatch) -> Door:
    """A round with a session of each size, another round, and a session that is open."""
    monkeypatch.setattr(thought_contents, "PAGE_THOUGHTS", 2)
    door.ledger.archive = memory_archive()
    for count in COUNTS:
        await session(door, name_of(count), count)
    await posted(door, "rounds/seal")
    await session(door, NEXT, 2)
    await posted(door, "rounds/seal")
    await posted(door, f"thoughts/{OPEN}/start", task_id="task")
    await posted(door, f"thoughts/{OPEN}", thought_id="t", thought_type="plan", content="p")
    return door


async def test_a_cold_round_is_read_verified_and_proved_as_before(old):
    paths = [f"thoughts/{name_of(count)}/proof/1" for count in COUNTS]
    paths += ["rounds", f"thoughts/{NEXT}/proof/2"]
    proved = {path: await http(old, path) for path in paths}
    with old.ledger.view() as view:
        rows = rows_of(view)
        named = [f"{name_of(count)}:t-{count}" for count in COUNTS]
        subjects = [prove_thought(view, entry, with_content=True) for entry in named]
        counts = [view.tables.count(TableQuery(table)) for table in TABLES]
    assert await archived(old, Retention(rounds_kept=0)) == 0
    assert await archived(old) == sum(COUNTS)
    assert await archived(old) == 0
    assert stored(old) == [3, 4]  # of the second round, and of the session that is open
    assert {path: await http(old, path) for path in paths} == proved
    assert [merkle_verify(proved[path]) for path in paths[: len(COUNTS)]] == [[]] * len(COUNTS)
    with old.ledger.view() as view:
        assert rows_of(view) == rows
        assert [prove_thought(view, entry, with_content=True) for entry in named] == subjects
        assert [view.tables.count(TableQuery(table)) for table in TABLES] == counts
        verification = verify(view)
        assert (verification.findings, verification.thoughts_archived) == ((), sum(COUNTS))
        read = verify_archive(view, lambda _: None)
        assert (read.findings, read.files_of_no_segment) == ((), 0)
        status = cold_status(view)
        assert (status.rounds_cold, status.thoughts_cold) == (1, sum(COUNTS))
    moved = receipts_of_kind(old.ledger, "thought_records_archived")
    assert len(moved) == status.thought_segments == read.thought_segments == 14


async def test_a_chain_is_verified_and_a_session_ended_after_it_is_cold(old):
    await archived(old)
    for name, storage in ((name_of(5), "archive"), (OPEN, None)):
        for page in (f"/v1/thoughts/{name}", f"/v1/thoughts/{name}/proof/1"):
            answer = await old.http.get(page)
            assert answer.headers.get("rotulus-storage") == storage or answer.status_code == 409
    for count in COUNTS:
        path = f"thoughts/{name_of(count)}"
        assert (await http(old, path))["thoughts"][-1]["content"] == "done \u00e9"
        await posted(old, f"{path}/end")
    await session(old, session_id(90), 1)
    refused = await posted(old, f"thoughts/{name_of(5)}", 409, **LATE)
    assert refused["error"]["code"] == "audit_session_over"
    assert findings(old) == []


LATE = {"thought_id": "late", "thought_type": "plan", "content": "too late"}


@pytest.mark.spec("P6")
async def test_a_hold_keeps_its_round_whole_and_an_erasure_reaches_a_cold_thought(old):
    hold = {"subject_kind": "thought_session", "subject_id": name_of(5), **GROUNDS}
    await posted(old, "legal-holds", hold_id="h", **hold)
    assert await archived(old) == 0
    await posted(old, "legal-holds/h/lift", **GROUNDS)
    assert await archived(old) == sum(COUNTS)
    await posted(old, "legal-holds", hold_id="h2", **hold)
    refused = await posted(old, "erasures", 409, **thought(name_of(5)))
    assert refused["error"]["code"] == "payload_held"
    await posted(old, "legal-holds/h2/lift", **GROUNDS)
    assert (await posted(old, "erasures", **thought(name_of(5))))["erased"]
    assert (await http(old, f"thoughts/{name_of(5)}"))["thoughts"][0]["content_storage"] == "erased"
    assert findings(old) == []


DAMAGES = (
    (lambda _: None, "segment_missing"),
    (lambda _: b"", "segment_damaged"),
    (flipped, "segment_damaged"),
    (lambda file: gzip.compress(gzip.decompress(file).replace(b"t-1", b"t-9")), "segment_damaged"),
)


async def test_a_segment_that_is_gone_or_another_is_named_and_concerns_who_asks(old):
    await archived(old)
    whole, [segment, *_] = old.ledger.archive.files, segments_of(old, name_of(5))
    for change, rule in DAMAGES:
        files = MemoryFiles(whole)
        files[segment["content_hash"]] = changed = change(whole[segment["content_hash"]])
        if changed is None:
            del files[segment["content_hash"]]
        old.ledger.archive = Archive(files)
        answer = await http(old, f"thoughts/{name_of(5)}")
        assert answer["error"]["code"] == f"archive_{rule}"
        assert (await http(old, f"thoughts/{name_of(6)}"))["thoughts"]
        assert findings(old) == [("thought_segments", rule)]
        with old.ledger.view() as view:
            assert "1 sessions of thoughts" in "".join(verify(view).not_checked)
    old.ledger.archive = Archive(Away())
    assert (await old.http.get(f"/v1/thoughts/{name_of(5)}")).status_code == 503
    with old.ledger.view() as view, pytest.raises(LedgerUnavailable):
        verify(view)


async def test_the_index_is_held_to_the_record_and_no_row_may_lie_beside_the_archive(old):
    with old.ledger.store.view() as tables:
        rows = {
            table: tables.scan(TableQuery(table, {"session_id": name_of(5)}))[0] for table in TABLES
        }
    await archived(old)
    segment = segments_of(old, name_of(5))[1]
    key = (segment["content_hash"],)
    for column, value in segment.items():
        changed = segment | {column: value + 1 if isinstance(value, int) else "0" * 64}
        with written(old) as tables:
            tables.delete(schema.thought_segments, *key)
            tables.insert(schema.thought_segments, changed)
        assert "thought_segments" in {table for table, _ in findings(old)}, column
        with written(old) as tables:
            tables.delete(schema.thought_segments, changed["content_hash"])
        assert ("thought_segments", "missing") in findings(old)
        with written(old) as tables:
            tables.insert(schema.thought_segments, segment)
    forged = {schema.thought_records: {"thought_id": "f"}, schema.merkle_nodes: {"hash": bytes(32)}}
    for table, row in rows.items():
        with written(old) as tables:
            tables.insert(table, row | forged[table])
        assert (table.name, "extra") in findings(old)
        with written(old) as tables:
            tables.delete(table, *(row[column.name] for column in table.primary_key.columns))
    assert findings(old) == []


def written(door: Door):
    return door.ledger.store.transaction()


def test_of_the_same_thoughts_the_same_file_is_made():
    record = json.dumps({"thought_id": "a", "text": '"}\\n{"record":{}}'}).encode()
    file = pack_thoughts("s\u00e9", 3, [(7, record)])
    assert pack_thoughts("s\u00e9", 3, [(7, record)]) == file
    held = unpack_thoughts(file)
    assert (held.session_id, held.first_sequence, held.thoughts) == ("s\u00e9", 3, ((7, record),))


HEADS = st.sampled_from(
    [
        {"format": "rotulus-thoughts/1", "session_id": "s", "first_sequence": "1"},
        {"format": "rotulus-thoughts/1", "session_id": 7, "first_sequence": 1e300},
        {"format": "rotulus-thoughts/1", "session_id": "s", "first_sequence": None},
        ["rotulus-thoughts/1"],
    ]
)
LINES = st.sampled_from(
    [b"", b'{"ec_sequence_number":"1","record":{}}', b'{"ec_sequence_number":"-1","record":{}}']
)


@given(HEADS, st.lists(LINES | st.binary(max_size=40), max_size=4), st.binary(max_size=3))
@settings(max_examples=60)
def test_a_strangers_file_is_thoughts_or_refused(head, lines, behind):
    file = gzip.compress(b"\n".join([json.dumps(head).encode(), *lines])) + behind
    for content in (file, file[:-2], b"\n".join(lines)):
        try:
            held = unpack_thoughts(content)
        except LedgerCorrupt:
            continue
        assert pack_thoughts(held.session_id, held.first_sequence, held.thoughts)
