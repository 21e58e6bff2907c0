"""`rotulus rollback`: seen first, confirmed where it must be, done on the file or by a gateway."""

import json
from typing import Any

import pytest

from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.shards import Fence, create_shards, holds, shards_of, take_shards
from kernel.ledger.sqlite.store import SqliteStore
from kernel.rollback.rebuild import state_digest
from tests.kernel.build import FakeHost, accept, adapt, create
from tests.kernel.every import HASH, own, states
from tests.workers.cli.command import printed, rotulus
from workers.environment.data_folder import DataFolder

LINK = {
    "recipient_email_hash": HASH,
    "shared_corpus_view_id": "view",
    "share_token_policy_id": "policy",
}


@pytest.fixture(autouse=True)
def _keys(monkeypatch):
    monkeypatch.setenv("ROTULUS_USER_CONFIRMATION_KEY", "u" * 32)
    monkeypatch.setenv("ROTULUS_ARCHITECT_CONFIRMATION_KEY", "a" * 32)


@pytest.fixture
def folder(data_folder: DataFolder) -> DataFolder:
    """A data folder with a small ledger."""
    with_ledger(
        data_folder,
        create("n", "Note", title="old") | {"operation_id": "made"},
        adapt("n", title="new") | {"operation_id": "changed"},
        own("share_link_grant", "link", **LINK) | {"operation_id": "shared"},
    )
    return data_folder


def with_ledger(folder: DataFolder, *documents: dict[str, Any]) -> dict[str, Any] | None:
    ledger = Ledger.create(SqliteStore(folder.ledger_path), FakeHost().host)
    if documents:
        accept(ledger, *documents)
    with ledger.view() as view:
        node = view.node("n")
    ledger.close()
    return node


def rolled_back(*arguments: str) -> Any:
    return printed("rollback", *arguments, "--json")


def refused(code: str, *arguments: str) -> None:
    result = rotulus("rollback", *arguments)
    assert result.exit_code == 1
    assert f"Error: {code}" in result.stderr


def confirmed(role: str, plan: dict[str, Any]) -> str:
    bound = ["--tier", str(plan["tier"]), "--scope", plan["scope"], "--digest", plan["digest"]]
    result = rotulus("rollback", "confirm", role, *bound)
    assert result.exit_code == 0, result.output
    return result.stdout.strip()


@pytest.mark.spec("K21")
def test_a_dry_run_changes_nothing_and_the_rollback_does_what_it_said(folder):
    before = folder.ledger_path.read_bytes()
    plan = rolled_back("operation", "changed", "--dry-run")
    assert [operation["operation_id"] for operation in plan["operations"]] == ["changed"]
    assert folder.ledger_path.read_bytes() == before
    assert rolled_back("operation", "changed")["original_operation_id"] == "changed"
    assert with_ledger(folder)["payload"] == {"title": "old"}
    refused("rollback_already_applied", "operation", "changed")
    refused("operation_not_found", "operation", "nothing")


@pytest.mark.spec("K17")
def test_what_persists_outside_is_confirmed_by_the_user(folder):
    refused("confirmation_required", "epoch", "shared")
    plan = rolled_back("epoch", "shared", "--dry-run")
    refused("confirmation_invalid", "epoch", "shared", "--token", confirmed("architect", plan))
    done = rolled_back("epoch", "shared", "--token", confirmed("user", plan))
    assert [effect["effect_kind"] for effect in done["persistent_external_effects"]] == [
        "share_link_grant"
    ]


@pytest.mark.spec("§5.3")
def test_a_large_epoch_goes_back_page_by_page(folder, monkeypatch):
    monkeypatch.setattr("kernel.rollback.plan.PAGE_OPERATIONS_MAX", 2)
    inside = [adapt("n", title=str(number)) | {"epoch_id": "e"} for number in range(5)]
    opened = states("epoch_open", "epoch_opened", epoch_id="e") | {"operation_id": "opened"}
    closed = states("epoch_close", "epoch_closed", epoch_id="e") | {"operation_id": "closed"}
    with_ledger(folder, opened, *inside, closed)
    plan = rolled_back("epoch", "e", "--dry-run")
    assert (len(plan["operations"]), plan["operations_left"]) == (2, 3)
    result = rotulus("rollback", "epoch", "e", "--json")
    assert result.exit_code == 0, result.output
    assert result.stderr.splitlines() == [
        "page 1: 3 operations are left",
        "page 2: 1 operations are left",
    ]
    done = json.loads(result.stdout)
    assert (done["page"], done["operations_left"]) == (3, 0)
    assert with_ledger(folder)["payload"] == {"title": "new"}


@pytest.mark.spec("K17")
def test_nobody_gives_a_word_without_a_key(folder, monkeypatch):
    monkeypatch.delenv("ROTULUS_ARCHITECT_CONFIRMATION_KEY")
    plan = rolled_back("rebuild", "--checkpoint", "0", "--dry-run")
    bound = ["--tier", "3", "--scope", plan["scope"], "--digest", plan["digest"]]
    refused("confirmation_not_configured", "confirm", "architect", *bound)


@pytest.mark.spec("§5.4")
def test_a_damaged_state_is_archived_and_built_again(folder):
    store = SqliteStore(folder.ledger_path)
    with store.transaction() as tables:
        row = tables.get(schema.nodes, "n")
        tables.put(schema.nodes, row | {"record": b"{}"})
    store.close()
    plan = rolled_back("rebuild", "--checkpoint", "1", "--dry-run")
    assert plan["differences"] == [{"store": "nodes", "record_key": "n"}]
    done = rolled_back("rebuild", "--checkpoint", "1", "--token", confirmed("architect", plan))
    assert done["records_replaced"] == 1
    assert with_ledger(folder)["payload"] == {"title": "new"}
    [archive] = (folder.path / "rebuild-archives").iterdir()
    assert archive.stat().st_mode & 0o077 == 0
    [kept] = json.loads(archive.read_bytes())
    assert bytes.fromhex(kept["stored"]["record"]) == b"{}"


@pytest.mark.spec("§5.4")
def test_who_writes_is_not_held_up_while_the_state_is_computed(folder, monkeypatch):
    plan = rolled_back("rebuild", "--checkpoint", "0", "--dry-run")
    token = confirmed("architect", plan)

    def written_meanwhile(tables):
        with_ledger(folder, create("later", "Note"))
        return state_digest(tables)

    monkeypatch.setattr("kernel.rollback.rebuild.state_digest", written_meanwhile)
    done = rolled_back("rebuild", "--checkpoint", "0", "--token", token)
    assert done["result"] == "tier_3_rebuild_applied"
    store = SqliteStore(folder.ledger_path)
    with store.view() as tables:
        assert tables.get(schema.nodes, "later") is not None
    store.close()


@pytest.mark.spec("D6")
def test_building_again_leaves_no_gateway_with_what_it_knew(folder):
    """One on another machine may hold shards of the ledger, and does not know of this."""
    ledger = Ledger(SqliteStore(folder.ledger_path), FakeHost().host)
    with ledger.transaction() as transaction:
        create_shards(transaction, 2)
        fences = take_shards(transaction, "elsewhere", shards_of(transaction))
    ledger.close()
    plan = rolled_back("rebuild", "--checkpoint", "0", "--dry-run")
    refused("tier_3_requires_architect", "rebuild", "--checkpoint", "0")
    assert are_held(folder, fences)
    rolled_back("rebuild", "--checkpoint", "0", "--token", confirmed("architect", plan))
    assert not are_held(folder, fences)


def are_held(folder: DataFolder, fences: frozenset[Fence]) -> bool:
    ledger = Ledger(SqliteStore(folder.ledger_path), FakeHost().host)
    with ledger.view() as view:
        answers = {holds(view, fence) for fence in fences}
    ledger.close()
    [held] = answers
    return held


def test_building_again_waits_for_nobody_who_holds_the_folder(folder):
    plan = rolled_back("rebuild", "--checkpoint", "0", "--dry-run")
    token = confirmed("architect", plan)
    with folder.lock():
        refused("data_folder_busy", "rebuild", "--checkpoint", "0", "--token", token)


def test_without_a_ledger_there_is_nothing_to_roll_back(tmp_path):
    refused("ledger_unavailable", "operation", "o", "--dry-run")
    refused("ledger_unavailable", "operation", "o")


def test_who_has_something_undone_and_why_goes_on_the_record(folder: DataFolder) -> None:
    said = ("--by", "ada", "--reason", "a mistake")
    assert rotulus("rollback", "operation", "changed", "--by", "").exit_code == 2
    done = rolled_back("operation", "changed", *said)
    ledger = Ledger(SqliteStore(folder.ledger_path), FakeHost().host)
    with ledger.view() as view:
        [receipt] = view.receipts_of(done["inverse_operation_id"])
    ledger.close()
    assert (receipt["decided_by"], receipt["reason"]) == ("ada", "a mistake")
