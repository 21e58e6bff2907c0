"""Contents of thoughts move to the archive once their round is old enough (seed 002, tiers)."""

import gzip

import pytest

from kernel.audit.proofs import thought as prove_thought
from kernel.ledger import schema
from kernel.ledger.archive import Archive, ArchiveUnavailable
from kernel.ledger.archived_content import pack_content, unpack_content
from kernel.ledger.store.tables import TableQuery
from kernel.retention.archival import Retention
from kernel.retention.thought_contents import count_archived_rounds
from kernel.verify import verify
from kernel.verify.archive import verify_archive
from tests.kernel.archives import memory_archive
from tests.kernel.build import receipts_of_kind
from tests.kernel.tampering import flipped
from tests.workers.api.door import Door
from tests.workers.api.test_erasures import GROUNDS
from tests.workers.api.test_thoughts import posted
from workers.client.typed.thoughts import merkle_verify
from workers.use_cases.log_archiving import ArchivalDone, archive_some

pytestmark = [pytest.mark.anyio, pytest.mark.spec("002 Retention tiers")]
KEPT = 3


def session_id(number: int) -> str:
    return f"0193514a-9a51-7cc3-8f0e-{number:012}"


S1, S2, S2B, S5, OPEN = map(session_id, (1, 2, 20, 5, 6))


async def session(door: Door, name: str) -> None:
    path = f"thoughts/{name}"
    await posted(door, f"{path}/start", task_id="task")
    body = {"thought_id": "t-1", "thought_type": "plan", "content": f"plan \u00e9 of {name}"}
    await posted(door, path, **body)
    await posted(door, f"{path}/verify")
    last = {"thought_id": "last", "thought_type": "reflection", "content": "done"}
    await posted(door, path, **last)
    await posted(door, f"{path}/finalize")


async def archived(door: Door, kept: int | None = KEPT) -> ArchivalDone:
    return await archive_some(door.ledger, door.services.write, Retention(rounds_kept=kept))


async def shown(door: Door, name: str) -> list[tuple[str | None, str]]:
    page = (await door.http.get(f"/v1/thoughts/{name}")).json()
    return [(thought["content"], thought["content_storage"]) for thought in page["thoughts"]]


async def proof(door: Door, name: str) -> dict:
    return (await door.http.get(f"/v1/thoughts/{name}/proof/1")).json()


def thought(name: str) -> dict:
    named = {"payload_kind": "thought", "session_id": name, "payload_id": "t-1"}
    return {**named, **GROUNDS}


def findings(door: Door) -> list[tuple[str, str]]:
    with door.ledger.view() as view:
        return [(finding.table, finding.rule) for finding in verify(view).findings]


def findings_in_archive(door: Door) -> list[str]:
    with door.ledger.view() as view:
        return [finding.rule for finding in verify_archive(view, lambda _: None).findings]


@pytest.fixture
async def old(door: Door) -> Door:
    """Four rounds that were sealed, a session in each but the second, which has two."""
    door.ledger.archive = memory_archive()
    for number in range(1, KEPT + 2):
        await session(door, session_id(number))
        if number == 2:
            await session(door, S2B)
        await posted(door, "rounds/seal")
    return door


async def test_contents_move_once_so_many_rounds_are_sealed_and_everything_is_said_as_before(old):
    before = {name: (await shown(old, name), await proof(old, name)) for name in (S1, S2)}
    with old.ledger.view() as view:
        opened = prove_thought(view, f"{S1}:t-1", with_content=True)
    assert await archived(old, None) == ArchivalDone()
    assert await archived(old, KEPT + 1) == ArchivalDone()
    assert (await archived(old)).contents_moved == 2
    assert await archived(old) == ArchivalDone()
    said, proved = before[S1]
    assert await shown(old, S1) == [(content, "archive") for content, _ in said]
    assert await shown(old, S2) == before[S2][0]
    assert await proof(old, S1) == proved
    assert merkle_verify(proved) == []
    with old.ledger.view() as view:
        assert view.blob(proved["thought"]["content_commitment"]) is None
        assert prove_thought(view, f"{S1}:t-1", with_content=True) == opened
        verification = verify(view)
        assert verification.ok
        assert "what 2 thoughts in the archive say" in verification.not_checked[-1]
        read = verify_archive(view, lambda _: None)
        assert (read.contents, read.files_of_no_segment, read.findings) == (2, 0, ())
        assert count_archived_rounds(view) == 1
    assert (await archived(old, 0)).contents_moved == 8
    assert findings(old) == []
    [receipt, *_] = receipts_of_kind(old.ledger, "thought_contents_archived")
    assert (receipt["session_id"], receipt["contents"]) == (S1, 2)


async def test_a_round_that_is_open_is_never_old(old):
    await session(old, OPEN)
    assert (await archived(old, 0)).contents_moved == 10
    assert {storage for _, storage in await shown(old, OPEN)} == {"database"}


async def test_what_is_held_stays_until_the_hold_is_lifted(old):
    hold = {"subject_kind": "thought_session", "subject_id": S2, **GROUNDS}
    await posted(old, "legal-holds", hold_id="of-2", **hold)
    assert (await archived(old, 0)).contents_moved == 8
    assert await archived(old, 0) == ArchivalDone()
    assert {storage for _, storage in await shown(old, S2)} == {"database"}
    assert {storage for _, storage in await shown(old, S2B)} == {"archive"}
    everything = {"subject_kind": "ledger", **GROUNDS}
    await posted(old, "legal-holds", hold_id="all", **everything)
    await posted(old, "legal-holds/of-2/lift", **GROUNDS)
    assert await archived(old, 0) == ArchivalDone()
    await posted(old, "legal-holds/all/lift", **GROUNDS)
    assert (await archived(old, 0)).contents_moved == 2
    assert findings(old) == []


@pytest.mark.spec("P6")
async def test_a_content_in_the_archive_is_held_and_erased_like_any_other(old):
    await archived(old)
    proved = await proof(old, S1)
    commitment = proved["thought"]["content_commitment"]
    assert commitment in old.ledger.archive.files
    hold = {"subject_kind": "payload", "subject_id": commitment, **GROUNDS}
    await posted(old, "legal-holds", hold_id="h", **hold)
    refused = await posted(old, "erasures", 409, **thought(S1))
    assert refused["error"]["code"] == "payload_held"
    await posted(old, "legal-holds/h/lift", **GROUNDS)
    assert (await posted(old, "erasures", **thought(S1)))["erased"]
    assert commitment not in old.ledger.archive.files
    assert (await shown(old, S1))[0] == (None, "erased")
    assert not (await posted(old, "erasures", **thought(S1)))["erased"]
    assert merkle_verify(await proof(old, S1)) == []
    assert (findings(old), findings_in_archive(old)) == ([], [])
    unknown = {"subject_kind": "payload", "subject_id": "f" * 64, **GROUNDS}
    assert "payload_unknown" in str(await posted(old, "legal-holds", 404, hold_id="u", **unknown))


async def test_an_erasure_whose_archive_is_away_is_done_when_it_is_asked_for_again(old):
    await archived(old)
    commitment = (await proof(old, S1))["thought"]["content_commitment"]
    archive = old.ledger.archive
    old.ledger.archive = Archive(Away(archive.files))
    away = await posted(old, "erasures", 503, **thought(S1))
    assert away["error"]["code"] == "archive_unavailable"
    old.ledger.archive = archive
    assert findings(old) == [("blobs", "extra")]
    await posted(old, "erasures", **thought(S1))
    assert commitment not in archive.files
    assert findings(old) == []


async def test_what_is_erased_while_it_is_written_does_not_stay_in_the_archive(old):
    commitment = (await proof(old, S1))["thought"]["content_commitment"]
    write = old.services.write

    async def late(unit):
        if commitment in old.ledger.archive.files:
            await posted(old, "erasures", **thought(S1))
            # As though the process that erases had come before the one that archives.
            old.ledger.archive.files[commitment] = b"written meanwhile"
        return await write(unit)

    done = await archive_some(old.ledger, late, Retention(rounds_kept=KEPT))
    assert done.contents_moved == 1
    assert commitment not in old.ledger.archive.files
    assert findings(old) == []


class Away(dict):
    """Files that lie somewhere that does not answer."""

    def get(self, *_):
        raise ArchiveUnavailable("away")

    put = delete = names = get


async def test_an_archive_that_is_away_is_a_typed_refusal_and_changes_nothing(old):
    archive = old.ledger.archive
    old.ledger.archive = Archive(Away())
    old.ledger.archive.files.put = lambda *_: Away().get("")
    with pytest.raises(ArchiveUnavailable):
        await archived(old)
    assert {storage for _, storage in await shown(old, S1)} == {"database"}
    old.ledger.archive = archive
    assert (await archived(old)).contents_moved == 2
    old.ledger.archive = Archive(Away())
    away = await old.http.get(f"/v1/thoughts/{S1}")
    assert (away.status_code, away.json()["error"]["code"]) == (503, "archive_unavailable")
    assert (await old.http.get(f"/v1/thoughts/{S2}")).status_code == 200


@pytest.mark.parametrize(
    ("change", "code", "rule"),
    [
        (lambda _: None, "archived_content_missing", "missing"),
        (lambda _: b"", "archived_content_damaged", "bytes_changed"),
        (lambda file: file[:-1], "archived_content_damaged", "bytes_changed"),
        (flipped, "archived_content_damaged", "bytes_changed"),
        (
            lambda file: gzip.compress(gzip.decompress(file).replace(b"plan", b"plot")),
            "archived_content_damaged",
            "bytes_changed",
        ),
    ],
)
async def test_a_content_that_is_gone_or_another_is_named(old, change, code, rule):
    await archived(old)
    commitment = (await proof(old, S1))["thought"]["content_commitment"]
    files = old.ledger.archive.files
    changed = change(files[commitment])
    files[commitment] = changed
    if changed is None:
        del files[commitment]
    answer = await old.http.get(f"/v1/thoughts/{S1}")
    assert answer.json()["error"]["code"] == code
    assert findings_in_archive(old) == [rule]
    assert findings(old) == ([("blobs", "missing")] if changed is None else [])


async def test_what_an_envelope_commits_to_as_well_stays(old):
    """Whoever names the envelope of an operation as his thought takes it from nobody."""
    await session(old, S5)
    with old.ledger.view() as view:
        envelope = view.log_row_at(1)["envelope_payload_blob_ref"]
        row = view.tables.scan(TableQuery(schema.thought_records, {"session_id": S5}, limit=1))[0]
    # As a raw operation could state it.
    stated = row["record_bytes"].replace(
        (await proof(old, S5))["thought"]["content_commitment"].encode(), envelope.encode()
    )
    with old.ledger.store.transaction() as tables:
        key = (S5, row["thought_sequence"])
        tables.update(schema.thought_records, key, {"record_bytes": stated})
    await posted(old, "rounds/seal")
    await archived(old, 0)
    assert envelope not in old.ledger.archive.files
    with old.ledger.view() as view:
        assert view.blob(envelope) is not None


def test_of_the_same_content_the_same_file_is_made():
    file = pack_content("c" * 64, bytes(32), 'a "plan"\n\U0001f600')
    assert pack_content("c" * 64, bytes(32), 'a "plan"\n\U0001f600') == file
    assert unpack_content(file) == (bytes(32), 'a "plan"\n\U0001f600'.encode())
