"""What the record asks for happens outside, once, and the record says so."""

import errno
import fcntl
import os
from pathlib import Path
from typing import Any

import anyio
import orjson
import pytest

from actors.errors import CommitFailed
from actors.sharding.held_shards import HeldShards
from kernel.ledger import schema
from kernel.ledger.shards import create_shards, shards_of, take_away_all, take_shards
from kernel.ledger.store.tables import TableQuery
from kernel.records.share_links import share_link
from kernel.transaction.outbound import OUTBOUND
from kernel.values.canonical import sha256_hex
from kernel.verify import verify
from queues.redis.watch import LedgerMark
from tests.actors.harness import settle
from tests.kernel.build import (
    adapt,
    advance_policy,
    changed,
    create,
    effect,
    envelope,
    overlay,
    taking,
)
from tests.kernel.every import own
from tests.kernel.quarantining import change, lift, quarantined, row_of
from tests.kernel.reports import TEXT, TEXT_HASH, artifact, emission, grant, revoke
from tests.workers.external_effects.effects_world import EffectsWorld
from workers.environment.folder_owner import EFFECTS_OWNER, claim_effects
from workers.external_effects import performer as performer_module
from workers.external_effects import write_once_folder as folder_module
from workers.external_effects.performer import (
    ATTEMPTS_MAX,
    DELAY_MAX_S,
    DELAY_MIN_S,
    ExternalEffects,
)

pytestmark = pytest.mark.anyio

ARTIFACT_FILE = f"artifacts/pdf/{TEXT_HASH}"
EVENT_FILE = "events/materializations.jsonl"


def token_in(world: EffectsWorld, name: str = "link") -> str:
    return str(orjson.loads((world.root / "share-links" / f"{name}.json").read_bytes())["token"])


def valid(world: EffectsWorld, token: str) -> bool:
    with world.ledger.view() as view:
        link = share_link(view, "link")
    assert link is not None
    is_known = link.get("token_sha256") == sha256_hex(token.encode())
    return is_known and link["state"] == "active"


@pytest.mark.spec("§4.3.4", "K19")
async def test_an_artifact_is_a_file_named_by_its_hash(world: EffectsWorld):
    assert await world.perform(artifact("art")) == 1
    assert world.files() == [ARTIFACT_FILE]
    assert (world.root / ARTIFACT_FILE).read_text() == TEXT
    [receipt] = world.receipts()
    assert receipt["written"] == [
        {"path": ARTIFACT_FILE, "sha256": TEXT_HASH, "size_bytes": len(TEXT)}
    ]
    assert receipt["attempts"] == 1
    assert world.outcomes() == ["completed"]
    world.check()


@pytest.mark.spec("§4.3.11", "K19")
async def test_a_materialization_is_a_file_and_an_event(world: EffectsWorld):
    await world.perform(emission("mat", "case/order.txt"))
    assert world.files() == [EVENT_FILE, "materialized/case/order.txt"]
    [event] = world.events()
    assert (event["path"], event["content_hash"]) == ("materialized/case/order.txt", TEXT_HASH)
    [receipt] = world.receipts()
    assert [written["path"] for written in receipt["written"]] == [
        "materialized/case/order.txt",
        EVENT_FILE,
    ]
    assert event["operation_id"] == receipt["original_operation_id"]
    world.check()


@pytest.mark.spec("§4.3.9", "§4.3.10")
async def test_a_token_is_left_for_delivery_and_its_hash_recorded(
    world: EffectsWorld, captured_log
):
    await world.perform(grant("link"))
    path = world.root / "share-links" / "link.json"
    assert path.stat().st_mode & 0o777 == 0o600
    token = token_in(world)
    assert valid(world, token)
    with world.ledger.view() as view:
        everything = {
            table.name: view.tables.scan(TableQuery(table))
            for table in schema.metadata.sorted_tables
        }
    assert token not in repr(everything)
    assert token not in repr(captured_log)
    world.accept(revoke("link"))
    assert not valid(world, token)
    assert await world.effects.perform_due() == 0
    world.check()


@pytest.mark.spec("§4.3.10")
async def test_a_link_that_was_revoked_before_gets_no_token(world: EffectsWorld):
    await world.perform(grant("link"), revoke("link"))
    assert world.failures() == ["share_link_revoked"]
    assert world.files() == []
    world.check()


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", ".hidden", "n" * 400, "ü"])
async def test_the_name_of_a_link_never_becomes_a_path(world: EffectsWorld, name: str):
    await world.perform(grant(name))
    [file] = world.files()
    assert file.startswith("share-links/sha256-")
    assert world.outcomes() == ["completed"]


async def test_the_file_of_another_link_is_not_taken_for_ones_own(world: EffectsWorld):
    (world.root / "share-links").mkdir()
    (world.root / "share-links" / "link.json").write_text('{"token":"planted"}')
    await world.perform(grant("link"))
    assert world.failures() == ["external_path_occupied"]
    assert not valid(world, "planted")


@pytest.mark.spec("K19")
async def test_an_effect_is_performed_once_however_often_one_looks(world: EffectsWorld):
    await world.perform(artifact("art"), emission("mat", "a"), grant("link"))
    token = token_in(world)
    for _ in range(3):
        assert await world.effects.perform_due() == 0
    assert await world.new_effects().perform_due() == 0
    assert len(world.receipts()) == len(world.outcomes()) == 3
    assert (len(world.events()), token_in(world)) == (1, token)


@pytest.mark.spec("K19", "§2.5")
async def test_what_was_performed_and_not_recorded_is_recorded_and_not_repeated(
    world: EffectsWorld, monkeypatch: pytest.MonkeyPatch
):
    async def fails(*_: object) -> list[object]:
        raise CommitFailed("as the test says")

    with monkeypatch.context() as patched:
        patched.setattr(world.committer, "commit", fails)
        assert await world.perform(artifact("art"), emission("mat", "a"), grant("link")) == 0
    token, files = token_in(world), world.files()
    assert (len(world.open()), world.outcomes()) == (3, [])

    assert await world.new_effects().perform_due() == 3

    assert (token_in(world), world.files(), len(world.events())) == (token, files, 1)
    assert world.outcomes() == ["completed"] * 3
    world.check()


async def test_a_record_that_cannot_be_written_for_long_does_not_bury_what_was_performed(
    world: EffectsWorld, monkeypatch: pytest.MonkeyPatch
):
    async def fails(*_: object) -> list[object]:
        raise CommitFailed("as the test says")

    world.accept(artifact("art"))
    with monkeypatch.context() as patched:
        patched.setattr(world.committer, "commit", fails)
        for _ in range(2 * ATTEMPTS_MAX):
            assert await world.effects.perform_due() == 0
            world.pass_s(DELAY_MAX_S)
    assert await world.effects.perform_due() == 1
    assert world.outcomes() == ["completed"]


@pytest.mark.spec("K19")
async def test_what_the_record_does_not_hold_is_not_written(world: EffectsWorld):
    await world.perform(artifact("art", content=None))
    assert world.failures() == ["external_content_not_on_record"]
    assert (world.files(), world.outcomes()) == ([], ["dead_letter"])
    world.check()


async def test_content_that_was_erased_meanwhile_is_not_written(world: EffectsWorld):
    world.accept(artifact("art"))
    with world.ledger.transaction() as transaction:
        [row] = transaction.log_rows()
        transaction.tables.delete(schema.blobs, row["envelope_payload_blob_ref"])
    assert await world.effects.perform_due() == 1
    assert world.failures() == ["external_content_not_on_record"]


async def test_a_nodes_content_is_written_as_it_was_then(world: EffectsWorld):
    await world.perform(
        create("n", "Note", content=TEXT),
        artifact("art", content=None, content_node_ref="n"),
        adapt("n", content="changed"),
    )
    assert (world.root / ARTIFACT_FILE).read_text() == TEXT
    world.check()


def sealing(node_id: str) -> dict[str, Any]:
    change = effect("visibility_change", node_id, visibility_class="sealed")
    return envelope("visibility_change", [change])


SENT = {
    "an artifact": lambda: artifact("art", content=None, content_node_ref="n"),
    "a file": lambda: own(
        "materialization_emit",
        "mat",
        materialized_path="a",
        content_hash=TEXT_HASH,
        content_node_ref="n",
    ),
    "content that states its source": lambda: artifact("art", source_refs=["drawn#0-1"]),
    "content of a sourced operation": lambda: artifact("art") | {"source_refs": ["n#0-1"]},
    "a link": lambda: changed(
        grant("link"), {"primitive_effects.0.payload.shared_corpus_view_id": "n"}
    ),
}
MEANWHILE = {
    "sealed": (lambda: sealing("n"), "external_source_restricted"),
    "blocked": (
        lambda: overlay("over", "blocked", "source_artifact", "n"),
        "external_access_overlay_blocked",
    ),
}


@pytest.mark.spec("§12.5", "§4.3.4", "§4.3.9", "§4.3.11", "K19")
@pytest.mark.parametrize("sent", SENT.values(), ids=SENT)
@pytest.mark.parametrize(("change", "code"), MEANWHILE.values(), ids=MEANWHILE)
async def test_what_is_sealed_before_it_leaves_does_not_leave(
    world: EffectsWorld, sent: Any, change: Any, code: str
):
    world.accept(create("n", "Note", content=TEXT), create("drawn", "Note", source_ref="n"))
    world.accept(sent())
    world.accept(change())
    assert await world.effects.perform_due() == 1
    assert (world.failures(), world.outcomes()) == ([code], ["dead_letter"])
    assert world.files() == []
    world.check()


@pytest.mark.spec("§12.5", "K19")
@pytest.mark.parametrize(
    "moved",
    [
        lambda: taking("retract", "n"),
        lambda: taking("soft_delete", "n"),
        lambda: own("quarantine", "n", quarantine_reason="infected"),
    ],
)
async def test_the_content_of_a_node_that_was_taken_back_does_not_leave(
    world: EffectsWorld, moved: Any
):
    world.accept(create("n", "Note", content=TEXT), SENT["an artifact"]())
    world.accept(moved())
    assert await world.effects.perform_due() == 1
    assert (world.failures(), world.files()) == (["external_source_withdrawn"], [])


@pytest.mark.spec("§12.5", "K19")
async def test_a_policy_that_lets_it_out_lets_it_out_when_it_leaves(world: EffectsWorld):
    world.accept(create("n", "Note", content=TEXT), SENT["an artifact"](), sealing("n"))
    advance_policy(world.ledger, propa_authorizations=[{"actor": "user", "scope": OUTBOUND}])
    assert await world.effects.perform_due() == 1
    assert (world.outcomes(), world.files()) == (["completed"], [ARTIFACT_FILE])


@pytest.mark.spec("§12.5", "K19")
async def test_what_has_left_before_it_was_sealed_is_reported_as_it_is(
    world: EffectsWorld, monkeypatch: pytest.MonkeyPatch
):
    async def fails(*_: object) -> list[object]:
        return [CommitFailed("the disk is full")]

    world.accept(create("n", "Note", content=TEXT), SENT["an artifact"]())
    with monkeypatch.context() as patched:
        patched.setattr(world.committer, "commit", fails)
        assert await world.effects.perform_due() == 0
    world.accept(sealing("n"))
    world.effects = world.new_effects()
    assert await world.effects.perform_due() == 1
    assert (world.outcomes(), world.files()) == (["completed"], [ARTIFACT_FILE])


@pytest.mark.spec("§12.5", "K19")
async def test_without_its_envelope_nobody_knows_what_a_token_would_open(world: EffectsWorld):
    world.accept(grant("link"))
    with world.ledger.transaction() as transaction:
        [row] = transaction.log_rows()
        transaction.tables.delete(schema.blobs, row["envelope_payload_blob_ref"])
    assert await world.effects.perform_due() == 1
    assert (world.failures(), world.files()) == (["external_sources_not_on_record"], [])


@pytest.mark.spec("§17.5", "K19")
async def test_what_a_quarantined_operation_decided_waits_until_it_is_lifted(world: EffectsWorld):
    world.accept(grant("link"))
    stored = row_of(world.ledger, 1)["row_bytes"]
    quarantine_id = quarantined(world.ledger, 1)
    for _ in range(12):
        assert await world.effects.perform_due() == 0
        world.pass_s(3600)
    assert (world.failures(), world.outcomes(), world.files()) == ([], [], [])
    change(world.ledger, 1, stored)
    lift(world.ledger, quarantine_id)
    assert await world.effects.perform_due() == 1
    assert world.failures() == []


async def test_a_path_that_is_taken_keeps_its_content(world: EffectsWorld):
    await world.perform(emission("one", "a"), emission("two", "a", "other"))
    assert (world.root / "materialized" / "a").read_text() == TEXT
    assert world.failures() == ["external_path_occupied"]
    assert [event["target_ref"] for event in world.events()] == ["one"]
    world.check()


async def test_a_link_planted_in_the_folder_leads_nowhere(world: EffectsWorld, tmp_path: Path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (world.root / "materialized").symlink_to(elsewhere)
    await world.perform(emission("mat", "a"))
    assert world.failures() == ["external_path_unsafe"]
    assert list(elsewhere.iterdir()) == []


def full_disk(_: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


async def test_a_full_disk_is_tried_again_ever_later(
    world: EffectsWorld, monkeypatch: pytest.MonkeyPatch
):
    world.accept(artifact("art"))
    with monkeypatch.context() as patched:
        patched.setattr(folder_module.os, "fsync", full_disk)
        for attempt in range(3):
            assert await world.effects.perform_due() == 0
            world.pass_s(DELAY_MIN_S * 2**attempt - 0.01)
            assert await world.effects.perform_due() == 0
            world.pass_s(0.01)
    assert await world.effects.perform_due() == 1
    [receipt] = world.receipts()
    assert receipt["attempts"] == 4


@pytest.mark.spec("K19")
async def test_a_disk_that_stays_full_ends_as_a_dead_letter(
    world: EffectsWorld, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(folder_module.os, "fsync", full_disk)
    world.accept(artifact("art"))
    for attempt in range(ATTEMPTS_MAX):
        assert await world.effects.perform_due() == (attempt == ATTEMPTS_MAX - 1)
        world.pass_s(DELAY_MAX_S)
    assert (world.failures(), world.outcomes()) == (["external_storage_full"], ["dead_letter"])
    assert world.receipts("external_effect_failed")[0]["attempts"] == ATTEMPTS_MAX
    assert await world.effects.perform_due() == 0
    world.check()


async def test_effects_on_one_record_keep_their_order_and_hold_nobody_else_up(
    world: EffectsWorld, monkeypatch: pytest.MonkeyPatch
):
    world.accept(emission("mat", "a"), emission("mat", "b", "second"), artifact("art"))
    real, calls = os.fsync, []

    def fails_first(fd: int) -> None:
        calls.append(fd)
        if len(calls) == 1:
            full_disk(fd)
        real(fd)

    monkeypatch.setattr(folder_module.os, "fsync", fails_first)
    assert await world.effects.perform_due() == 1
    assert world.files() == [ARTIFACT_FILE]
    # What waits for the first is no reason to look again before it is due.
    assert world.effects.idle_s == DELAY_MIN_S
    world.pass_s(DELAY_MIN_S)
    assert await world.effects.perform_due() == 2
    assert [event["path"] for event in world.events()] == ["materialized/a", "materialized/b"]


async def test_a_defect_of_one_effect_is_not_everybodys_end(
    world: EffectsWorld, monkeypatch: pytest.MonkeyPatch
):
    def defect(*_: object) -> None:
        raise KeyError("secret")

    handlers = performer_module.HANDLERS | {"share_link_grant": defect}
    monkeypatch.setattr(performer_module, "HANDLERS", handlers)
    assert await world.perform(grant("link"), artifact("art")) == 1
    assert world.files() == [ARTIFACT_FILE]


async def test_a_running_performer_is_woken_by_a_commit(world: EffectsWorld):
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.effects.run)
        await anyio.sleep(0.05)
        world.accept(artifact("art"), emission("mat", "a"))
        world.effects.notify()
        await settle(lambda: len(world.open()) == 0)
        tasks.cancel_scope.cancel()
    assert world.outcomes() == ["completed", "completed"]


async def test_requests_of_another_queue_are_left_alone(world: EffectsWorld):
    world.accept(create("cu", "ConsolidatedUnderstanding"), artifact("art"))
    assert await world.effects.perform_due() == 1
    assert len(world.open()) == 1


@pytest.mark.spec("§5.1", "§4.3.4")
async def test_verifying_performs_nothing(world: EffectsWorld):
    await world.perform(artifact("art"), emission("mat", "a"), grant("link"))
    world.accept(artifact("open", "never performed"))
    for path in [world.root / name for name in world.files()]:
        path.unlink()
    with world.ledger.view() as view:
        before = (
            view.tables.count(TableQuery(schema.outbox)),
            view.tables.count(TableQuery(schema.outbox_outcomes)),
        )
        verification = verify(view)
        after = (
            view.tables.count(TableQuery(schema.outbox)),
            view.tables.count(TableQuery(schema.outbox_outcomes)),
        )
    assert verification.findings == ()
    assert (verification.requests_open, verification.requests_closed) == (1, 3)
    assert before == after
    assert world.files() == []


@pytest.mark.spec("K19")
async def test_an_owner_that_loses_its_shard_while_it_waits_for_the_file_appends_nothing(
    world: EffectsWorld,
):
    with world.ledger.transaction() as transaction:
        create_shards(transaction, 1)
    with world.ledger.transaction() as transaction:
        fences = take_shards(transaction, "gateway", shards_of(transaction))
    held_shards = HeldShards(1)
    held_shards.add(fences)
    effects = world.new_effects(held_shards)
    world.accept(emission("mat", "a"))
    (world.root / EVENT_FILE).parent.mkdir()
    with (world.root / EVENT_FILE).open("wb") as kept:
        fcntl.flock(kept, fcntl.LOCK_EX)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(effects.perform_due)
            await settle((world.root / "materialized").exists)
            with world.ledger.transaction() as transaction:
                take_away_all(transaction)
            fcntl.flock(kept, fcntl.LOCK_UN)
    assert world.events() == []
    assert (world.outcomes(), len(world.open())) == ([], 1)


async def test_an_effect_waits_while_the_folder_is_another_ledgers(world: EffectsWorld):
    mine, other = LedgerMark("a" * 32, "/data/a"), LedgerMark("b" * 32, "/data/b")
    claim_effects(world.root, other)
    world.effects = ExternalEffects(
        world.ledger,
        world.committer,
        world.root,
        lambda count: b"x" * count,
        world.now_s,
        claim=lambda _: claim_effects(world.root, mine),
    )
    assert await world.perform(artifact("art")) == 0
    for _ in range(ATTEMPTS_MAX + 1):
        world.pass_s(DELAY_MAX_S)
        assert await world.effects.perform_due() == 0
    assert (world.files(), world.failures()) == ([EFFECTS_OWNER], [])
    (world.root / EFFECTS_OWNER).unlink()
    world.pass_s(DELAY_MAX_S)
    assert await world.effects.perform_due() == 1
    assert world.files() == [ARTIFACT_FILE, EFFECTS_OWNER]
