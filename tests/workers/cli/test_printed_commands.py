"""Every command that the product prints for a person is carried out here, as it is printed.

`printed_commands.py` collects them from the sources, the alerts and the runbook. A test names those
that it carries out, in a state in which they are printed, and looks at what has changed then.
"""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import anyio
import click
import pytest
from click.testing import Result

from actors.commit.refusal_units import SetAsideUnit
from actors.errors import RequestSetAside
from kernel.authority.requests import AUTHORITY_QUEUE
from kernel.landscape.recorder import Recorder
from kernel.ledger import migrations, schema
from kernel.ledger.head_watch import Answered, LedgerWentBack, Memory, Remembered
from kernel.ledger.ledger import Head, Ledger, LedgerView
from kernel.ledger.shards import Position
from kernel.ledger.sqlite import catalog as sqlite_catalog
from kernel.ledger.sqlite.store import SqliteStore
from kernel.proof.tiles import TILE_WIDTH
from kernel.records.head_acceptance import record_finding
from kernel.work.contents import BINDING_QUEUE
from kernel.work.outcomes import close
from kernel.work.requests import WorkRequest, enqueue
from queues.embedded.server import EmbeddedRedis, find_server
from queues.fleet.worker_heartbeats import WorkerBeat
from queues.queue.items import QueueDepth
from tests import later_revision
from tests.kernel.build import (
    FakeHost,
    accept,
    adapt,
    create,
    drain,
    link,
    op_id,
    submit,
)
from tests.kernel.every import dated, filings, own
from tests.kernel.implied import halt
from tests.kernel.landscape.runs import begin
from tests.kernel.lites import lite, log_of
from tests.kernel.tampering import Copy, flipped
from tests.later_revision import later_facts_of_sqlite, write_later_revision
from tests.ports import free_port
from tests.printed_commands import PAGES, ROOT, carried_out, named_commands, printed_commands
from tests.process_environment import process_environment
from tests.system.tree_run import COMMAND, wait_for
from tests.workers.api.asking import BINDINGS, binding, enqueued, given_up
from tests.workers.api.door import SESSION, Door, running_door
from tests.workers.api.test_thoughts import posted
from tests.workers.cli.command import printed, rotulus
from tests.workers.cli.folder_client import FolderClient
from tests.workers.cli.test_pipeline import program
from tests.workers.use_cases.test_thought_contents import S1, session
from workers.cli import gateway_call
from workers.cli import status as status_module
from workers.cli.demo import print_proof
from workers.cli.main import main
from workers.cli.up import say_death, set_aside_lines
from workers.client.errors import GatewayError
from workers.client.gateway_address import gateway_address
from workers.client.typed.gateway import GatewayClient
from workers.demo.shown_proof import ShownProof
from workers.environment import diagnosis
from workers.environment.data_folder import DataFolder
from workers.process_tree.supervisor import AlikeDeaths
from workers.views.attention_facts import AttentionFacts, FleetFacts
from workers.views.attention_rules import attention_items, line_of

RUNBOOK, ALERTS = ((ROOT / page).read_text() for page in PAGES)
GROUNDS: Final = {"TEXT": "put back; it's well", "NAME": "ada"}
ODD: Final = "-odd 'id' $(x)"
"""A name that a shell would read otherwise, and a program take for an option."""

CARRIED_OUT: Final = dict[str, str]()
"""The command of each test by the name of the test; filled where the tests are declared."""

HOST: Final = FakeHost().host
"""Whoever writes here has it, so that no two of them make the same name."""

ELSEWHERE: Final = {
    **dict.fromkeys(("dev FILE", "dev {}.py", "dev {name}.py"), "tests/system/test_dev.py"),
    "up --app MODULE:NAME": "tests/system/test_own_jobs.py",
    "keys create PRINCIPAL --role ROLE": "tests/workers/dashboard/test_login_in_chromium.py",
    "backup --output PLACE": "tests/workers/cli/test_backup.py",
}
"""The commands that the tests of another file carry out, and that file."""

_done: Final = set[str]()


def carries_out(*commands: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Declare which of the printed commands a test carries out, and hold it to that."""

    def declared(test: Callable[..., None]) -> Callable[..., None]:
        CARRIED_OUT.update(dict.fromkeys(commands, test.__name__))

        @wraps(test)
        def held(*arguments: Any, **fixtures: Any) -> None:
            _done.clear()
            test(*arguments, **fixtures)
            assert _done == set(commands)

        return held

    return declared


def words_of(text: str, command: str, **filled: object) -> list[str]:
    """The words behind `rotulus` of a command that the text prints, filled in."""
    _done.add(command)
    return carried_out(text, command, filled)[1:]


def carry_out(text: str, command: str, *, code: int = 0, **filled: object) -> Result:
    result = rotulus(*words_of(text, command, **filled))
    assert result.exit_code == code, result.output
    return result


def test_every_command_that_is_printed_is_carried_out_by_a_test():
    assert printed_commands().keys() == CARRIED_OUT.keys() | ELSEWHERE.keys()


def test_a_command_that_is_named_anywhere_is_there_with_its_options():
    for command in sorted({*named_commands(), *printed_commands()}):
        words, at = shlex.split(command), main
        while words and isinstance(at, click.Group) and not words[0].startswith("-"):
            below = at.get_command(click.Context(at), words.pop(0))
            assert below is not None, command
            at = below
        options = {option for parameter in at.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} - {"--"} <= options, command


@carries_out("docs --list")
def test_a_page_that_is_not_there_is_looked_for():
    said = rotulus("docs", "--print", "nothing").stderr
    assert "deploy/runbook" in carry_out(said, "docs --list").stdout


# The folder in which commands run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataFolder:
    """A folder whose name a shell would split, with a gateway for each call that asks one."""
    monkeypatch.setenv("ROTULUS_DATA_DIR", str(tmp_path / "a folder"))
    monkeypatch.chdir(tmp_path)
    folder = DataFolder(tmp_path / "a folder")
    folder.make()
    for module in (gateway_call, status_module):
        monkeypatch.setattr(module, "GatewayClient", lambda *_, **__: FolderClient(folder, HOST))
    return folder


@pytest.fixture
def ledger(folder: DataFolder) -> Iterator[Ledger]:
    """The ledger of the folder, with two rows; it may be closed before commands run."""
    ledger = Ledger.create(SqliteStore(folder.ledger_path), HOST)
    for number in range(2):
        submit(ledger, create(f"n-{number}", "Note") | {"operation_id": op_id(f"{number}")})
    yield ledger
    ledger.close()


def in_door(folder: DataFolder, do: Callable[[Door], Any]) -> Any:
    async def run() -> Any:
        store = SqliteStore(folder.ledger_path)
        try:
            async with running_door(store, host=HOST) as door:
                return await do(door)
        finally:
            store.close()

    return anyio.run(run)


def status(needle: str) -> str:
    """The sentence of `rotulus status` about this, or nothing."""
    shown = rotulus("status")
    assert shown.exit_code == 1, "no worker serves the queues here"
    return next((line for line in shown.stdout.splitlines() if needle in line), "")


def doctored(subject: str) -> str:
    """What `rotulus doctor` says is to be done about a subject, or nothing."""
    entries = printed("doctor", "--json", code=rotulus("doctor").exit_code)["diagnoses"]
    return " ".join(each["todo"] for each in entries if each["subject"] == subject).strip()


# Queues


@carries_out(
    "queues resume {} ...", "queues resume QUEUE", "queues resume QUEUE --priority PRIORITY"
)
@pytest.mark.usefixtures("ledger")
def test_what_is_paused_goes_on():
    def paused(*priority: str) -> str:
        rotulus("queues", "pause", BINDING_QUEUE, *priority)
        return status("is paused")

    carry_out(paused(), "queues resume {} ...")
    assert not status("is paused")
    carry_out(paused("--priority", "critical"), "queues resume {} ...")
    assert not status("is paused")
    assert paused()
    carry_out(RUNBOOK, "queues resume QUEUE", QUEUE=BINDING_QUEUE)
    assert not status("is paused")
    assert paused("--priority", "critical")
    priority = "queues resume QUEUE --priority PRIORITY"
    carry_out(RUNBOOK, priority, QUEUE=BINDING_QUEUE, PRIORITY="critical")
    assert not status("is paused")


@carries_out("queues", "queues dead {}", "queues dead QUEUE", "queues requeue QUEUE --all")
def test_what_was_given_up_is_listed_and_asked_for_anew(folder, ledger):
    ledger.close()

    async def give_up(door: Door) -> str:
        [requested] = await enqueued(door, BINDINGS, binding("a"))
        await given_up(door, BINDING_QUEUE, requested["request_id"], "model: away")
        return str(requested["request_id"])

    request_id = in_door(folder, give_up)
    assert BINDING_QUEUE in carry_out(RUNBOOK, "queues").stdout
    sentence = status("given up")
    for text, command, filled in (
        (sentence, "queues dead {}", {}),
        (RUNBOOK, "queues dead QUEUE", {"QUEUE": BINDING_QUEUE}),
    ):
        assert request_id in carry_out(text, command, **filled).stdout
    carry_out(RUNBOOK, "queues requeue QUEUE --all", QUEUE=BINDING_QUEUE)
    assert request_id not in rotulus("queues", "dead", BINDING_QUEUE).stdout


@carries_out("queues list QUEUE", "queues list {}")
@pytest.mark.usefixtures("ledger")
def test_a_request_that_is_not_there_is_looked_for():
    none = dict.fromkeys(("critical", "user_initiated", "background"), 0)
    depth = QueueDepth(none, none, 0, 0, 0, 0, none | {"critical": 9_000}, False, frozenset())
    beat = WorkerBeat("w", 1, (BINDING_QUEUE,), 1, 0, 0, 0, 0)
    late = AttentionFacts(fleet=FleetFacts({BINDING_QUEUE: depth}, [beat], [], 0))
    [sentence] = map(line_of, attention_items(late))
    assert carry_out(sentence, "queues list {}").stdout == "none\n"
    said = rotulus("queues", "why", BINDING_QUEUE, "nobody").stderr
    assert "work_request_unknown" in said
    assert carry_out(said, "queues list QUEUE", QUEUE=BINDING_QUEUE).stdout == "none\n"


@carries_out("queues set-aside", "queues put-back {} {}")
def test_what_was_set_aside_is_listed_and_put_back(folder, ledger, capsys):
    ledger.close()
    offset = f"{1:015}-{0:020}"

    async def set_aside(door: Door) -> None:
        unit = SetAsideUnit("session-a", 5, Position("0" * 16, offset), 3, "0" * 64)
        with pytest.raises(RequestSetAside):
            await door.services.write(unit)

    in_door(folder, set_aside)
    say_death(AlikeDeaths("worker-1", 3, "exit code 1", ""))
    assert "session-a" in carry_out(capsys.readouterr().err, "queues set-aside").stdout
    finding = {"shard": "5", "offset": offset, "session_id": "session-a"}
    kept = {"shard": 5, "offset": offset, "bytes": 9}
    [(line, _)] = set_aside_lines({"set_aside": [kept], "findings": [finding]})
    # The finding is on the record, and the request is in no mail of this Redis.
    assert carry_out(line, "queues put-back {} {}").stdout == "put_back: false\n"


# What waits for a person


@carries_out(
    "review queue relationship",
    "review queue observation",
    "review queue outcome",
    "audit adjudications",
    "audit migration-reviews",
)
def test_what_waits_for_a_person_is_listed(ledger, tmp_path):
    stated = {"disposition": "granted", "lifecycle_state": "observed"}
    date = dated("docket_entry_date")
    accept(ledger, own("court_disposition_observation_write", ODD, **stated, **date))
    unit, related, _, _, relationship, *_ = filings()
    accept(ledger, unit, related, relationship)
    for refs in (["a"], ["a", "b"]):
        submit(ledger, adapt("n-0", cites_refs=refs), unseen=True)
    about = {"binding_id": "b", "source_event_id": "e", "target_kind": "relationship_candidate"}
    result = {"outcome_state": "user_review_required", "outcome_reason_code": "case_unknown"}
    with ledger.transaction() as transaction:
        [requested] = enqueue(transaction, [WorkRequest(BINDING_QUEUE, "k", about)])
        close(transaction, requested.request_id, "completed", result=result)
    ledger.close()
    lacking = lite(create("m", "Note"), operation_id="lacking", affected_subgraph_descriptor=None)
    log = tmp_path / "log.jsonl"
    log.write_bytes(log_of(lacking).getvalue())
    said = rotulus("migrate-log", str(log)).stderr
    assert "lacking" in carry_out(said, "audit migration-reviews").stdout
    for kind, command, listed in (
        ("relationship", "review queue relationship", "r1"),
        ("observation", "review queue observation", ODD),
        ("outcome", "review queue outcome", "case_unknown"),
        ("conflict", "audit adjudications", "cardinality_conflict"),
        ("migration", "audit migration-reviews", "lacking"),
    ):
        sentence = status(f"1 {kind} waits for a person's review")
        assert listed in carry_out(sentence, command).stdout


@carries_out("implications resume {}", "implications", "implications resume HALT_ID --reason TEXT")
def test_what_is_halted_goes_on(ledger):
    accept(ledger, halt(ODD), halt("b", halt_id=ODD), halt("c"))
    ledger.close()
    for needle in (f"detector {ODD}", "detector b"):
        carry_out(status(needle), "implications resume {}")
        assert not status(needle)
    shown = carry_out(ALERTS, "implications").stdout
    assert carry_out(RUNBOOK, "implications").stdout == shown
    command = "implications resume HALT_ID --reason TEXT"
    carry_out(RUNBOOK, command, HALT_ID="detector:c", TEXT=GROUNDS["TEXT"])
    assert not status("is halted")


# Runs


@carries_out("landscape report {} failure_context", "landscape seal {}", "landscape runs")
def test_a_run_that_failed_is_looked_at_and_sealed(folder, ledger):
    recorder = Recorder(ledger)
    begin(recorder, ODD)
    recorder.complete_run(ODD, "failed")
    ledger.close()
    report = carry_out(status(f"run {ODD} "), "landscape report {} failure_context")
    assert ODD in report.stdout

    async def page(door: Door) -> str:
        return (await door.http.get(f"/runs/{quote(ODD, safe='')}")).text

    carry_out(in_door(folder, page), "landscape seal {}")
    assert "landscape seal" not in in_door(folder, page)
    said = rotulus("landscape", "report", "nobody").stderr
    assert ODD in carry_out(said, "landscape runs").stdout


@carries_out("pipeline resume {}")
def test_a_pipeline_that_stopped_goes_on(tmp_path, folder, monkeypatch):
    (tmp_path / "orders.py").write_text(program())
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "orders", raising=False)
    (tmp_path / "large.csv").mkdir()
    said = rotulus("pipeline", "run", "orders:pipeline", "--data-dir", str(folder.path)).stderr
    (tmp_path / "large.csv").rmdir()
    monkeypatch.delenv("ROTULUS_DATA_DIR")
    sys.modules.pop("orders", None)
    assert "status: completed" in carry_out(said, "pipeline resume {}").stdout
    sys.modules.pop("orders", None)


# Damage


@pytest.fixture
def damaged(folder: DataFolder, ledger: Ledger) -> str:
    """The quarantine of the first row, which was changed."""
    ledger.close()
    spoil(folder, b'"create"', b'"change"')
    printed("verify", "--record", "--json", code=1)
    [quarantine] = printed("quarantine", "list", "--json")["quarantines"]
    return str(quarantine["quarantine_id"])


def spoil(folder: DataFolder, old: bytes, new: bytes) -> None:
    copy = Copy(folder.ledger_path)
    row = copy.rows(schema.kernel_event_log)[0]
    copy.set(schema.kernel_event_log, row, row_bytes=row["row_bytes"].replace(old, new))
    copy.close()


@carries_out(
    "verify",
    "quarantine list",
    "quarantine lift ID --reason TEXT --authority NAME",
    "quarantine lift {} --reason TEXT --authority NAME",
)
def test_what_was_damaged_is_looked_at_and_lifted(folder, damaged):
    lift = "quarantine lift ID --reason TEXT --authority NAME"
    refused = rotulus("audit", "preview", op_id("0")).stderr
    unknown = rotulus(*words_of(RUNBOOK, lift, ID="nobody", **GROUNDS)).stderr
    read = rotulus("show", "log").stdout
    for text in (status("quarantined: "), refused, unknown, read, RUNBOOK, ALERTS):
        assert damaged in carry_out(text, "quarantine list").stdout
    for text in (doctored("record"), RUNBOOK, ALERTS):
        assert "bytes_changed" in carry_out(text, "verify", code=1).output
    named = "quarantine lift {} --reason TEXT --authority NAME"
    for text, command in ((refused, lift), ("", named)):
        doctors = doctored("record")
        spoil(folder, b'"change"', b'"create"')
        filled = {"ID": damaged} if text else {}
        carry_out(text or doctors, command, **filled, **GROUNDS)
        assert printed("quarantine", "list", "--json") == {"quarantines": []}
        spoil(folder, b'"create"', b'"change"')
        printed("verify", "--record", "--json", code=1)
        [quarantine] = printed("quarantine", "list", "--json")["quarantines"]
        damaged = quarantine["quarantine_id"]


@carries_out("tree rebuild")
def test_a_tile_that_differs_is_built_anew(folder, ledger):
    for number in range(2, TILE_WIDTH):
        submit(ledger, create(f"n-{number}", "Note"))
    ledger.close()
    copy = Copy(folder.ledger_path)
    tile = copy.a_row(schema.tree_tiles)
    copy.set(schema.tree_tiles, tile, hashes=flipped(tile["hashes"]))
    copy.close()
    carry_out(doctored("record"), "tree rebuild")
    assert not doctored("record")


@carries_out("ledger lost", "ledger accept-head --reason TEXT --authority NAME")
def test_a_ledger_that_went_back_is_gone_on_from(ledger):
    now = ledger.read(LedgerView.head)
    accept_head = "ledger accept-head --reason TEXT --authority NAME"

    def go_back(rows: int) -> str:
        known = Head(rows, "a" * 64, 0, "0" * 64, 0, now.committed_at_us + 10**9)
        lost = (Answered("operation", f"op-{rows}", rows, "s-1"),)
        with ledger.transaction() as transaction:
            record_finding(transaction, "a", Memory(known, now, (Remembered(known, lost),)))
        return f"op-{rows}"

    sources: tuple[Callable[[], str], ...] = (
        lambda: str(LedgerWentBack("finding_stands")),
        lambda: doctored("record"),
        lambda: RUNBOOK,
        lambda: rotulus("ledger", "lost").stdout + "`rotulus ledger lost`",
    )
    for rows, text in enumerate(sources, 9):
        lost, said = go_back(rows), text()
        assert lost in carry_out(said, "ledger lost").stdout
        assert lost in carry_out(ALERTS, "ledger lost").stdout
        carry_out(said, accept_head, **GROUNDS)
        assert not doctored("record")


@carries_out("hold list")
def test_a_hold_that_is_not_there_is_looked_for(ledger):
    ledger.close()
    said = rotulus("hold", "lift", "nobody", "--reason", "r", "--authority", "a").stderr
    assert carry_out(said, "hold list").stdout == "none\n"


@carries_out("migrate")
def test_an_older_ledger_is_brought_forward(ledger, tmp_path, monkeypatch):
    ledger.close()
    monkeypatch.setattr(status_module, "GatewayClient", GatewayClient)
    monkeypatch.setattr(migrations, "VERSIONS", write_later_revision(tmp_path / "later"))
    later_revision.become_later(monkeypatch)
    facts = later_facts_of_sqlite()
    monkeypatch.setattr(sqlite_catalog, "expected_facts", lambda: facts)
    said, doctors = rotulus("show", "log"), doctored("record")
    assert said.exit_code == 1
    carry_out(said.stderr, "migrate")
    assert rotulus("show", "log").exit_code == 0
    assert not doctored("record")
    for text in (doctors, RUNBOOK):
        carry_out(text, "migrate")


@carries_out("rollback rebuild --checkpoint SEQUENCE")
def test_a_state_that_differs_is_built_again(ledger, monkeypatch):
    ledger.close()
    monkeypatch.setenv("ROTULUS_ARCHITECT_CONFIRMATION_KEY", "k" * 32)
    words = words_of(RUNBOOK, "rollback rebuild --checkpoint SEQUENCE", SEQUENCE=0)
    dry = printed(*words, "--dry-run", "--json")
    options = ("--tier", "3", "--scope", dry["scope"], "--digest", dry["digest"])
    token = rotulus("rollback", "confirm", "architect", *options).stdout.strip()
    assert rotulus(*words, "--token", token).exit_code == 0


# The archive and the disk


@carries_out("archive run", "archive run --older-than 90d", "archive verify")
def test_the_archive_takes_rows_and_is_verified(folder, ledger, monkeypatch):
    ledger.close()
    monkeypatch.setattr(diagnosis, "FREE_BYTES_MIN", 1 << 62)
    assert "rows_moved" in carry_out(doctored("disk"), "archive run").stdout
    monkeypatch.setenv("ROTULUS_KERNEL_RETENTION_DAYS", "0")
    said = doctored("archive")
    assert "rows_moved" in carry_out(said, "archive run --older-than 90d").stdout
    assert "in the archive say" not in rotulus("verify").stdout

    async def think(door: Door) -> None:
        await session(door, S1)
        await posted(door, "rounds/seal")

    in_door(folder, think)
    monkeypatch.setenv("ROTULUS_THOUGHT_ROUNDS_KEPT", "0")
    assert "contents_moved: 2" in rotulus("archive", "run").stdout
    said = rotulus("verify").stdout
    assert "verifies: true" in carry_out(said, "archive verify").stdout


# Keys, proofs and the published log


@carries_out(
    "thought key FILE --name NAME",
    "checkpoint key FILE --origin ORIGIN",
    "checkpoint publish FOLDER --key FILE",
    "checkpoint verify FILE --vkey KEY",
    "checkpoint verify {} ...",
    "verify --since SIZE:ROOT",
)
def test_keys_are_made_and_the_log_is_published_and_held(ledger, tmp_path, monkeypatch, capsys):
    ledger.close()
    seal_key, log_key, public = tmp_path / "seal key", tmp_path / "log key", tmp_path / "public"
    for subject in ("keys", "log keys"):
        assert doctored(subject)
    carry_out(doctored("keys"), "thought key FILE --name NAME", FILE=seal_key, NAME="a/b")
    monkeypatch.setenv("ROTULUS_SEAL_KEY", str(seal_key))
    made = carry_out(
        doctored("log keys"), "checkpoint key FILE --origin ORIGIN", FILE=log_key, ORIGIN="a/log"
    )
    monkeypatch.setenv("ROTULUS_CHECKPOINT_KEY", str(log_key))
    for subject in ("keys", "log keys"):
        assert not doctored(subject)
    [vkey] = [word for word in made.stdout.split() if word.startswith("a/log+")][:1]
    said = rotulus("prove", "operation", op_id("0"), "--output", "proof.json").stderr
    carry_out(said, "checkpoint publish FOLDER --key FILE", FOLDER=public, FILE=log_key)
    note = public / "checkpoint"
    proved = rotulus(
        "prove", "operation", op_id("0"), "--output", "proof", "--checkpoint", str(note)
    )
    assert proved.exit_code == 0
    judged = carry_out(RUNBOOK, "checkpoint verify FILE --vkey KEY", FILE=note, KEY=vkey)
    assert "unwitnessed" in judged.output
    head = printed("verify", "--json")["tree_head"]
    since = carry_out(RUNBOOK, "verify --since SIZE:ROOT", **{"SIZE:ROOT": head})
    assert "verifies: true" in since.stdout
    kept = tmp_path / "kept"
    kept.write_bytes(note.read_bytes())
    print_proof(ShownProof("1:a", note, vkey, kept, "elimination", verifies=True, verifier_says=""))
    said = capsys.readouterr().out.replace("/elsewhere/checkpoint", str(kept))
    assert "unwitnessed" in carry_out(said, "checkpoint verify {} ...").output


@carries_out("prove operation --output FILE -- {}")
def test_an_outcome_that_is_an_operation_is_proved_as_one(ledger, note, tmp_path, monkeypatch):
    claim = create("claim", "VersionedClaim", authority=1)
    accept(ledger, claim, create("u", "ConsolidatedUnderstanding"), link("e", "claim", "u"))
    with ledger.view() as view:
        request = view.open_requests(queue=AUTHORITY_QUEUE)[0].request_id
    drain(ledger)
    ledger.close()
    file = tmp_path / "a proof"
    said = rotulus(
        "prove", "request", request, "--output", str(file), "--checkpoint", note()
    ).stderr
    monkeypatch.setenv("ROTULUS_CHECKPOINT_FOLDER", str(Path(note()).parent))
    carry_out(said, "prove operation --output FILE -- {}", FILE=file)
    assert json.loads(file.read_bytes())


@pytest.fixture
def note(tmp_path: Path) -> Callable[[], str]:
    """Publishes the log and returns where its checkpoint is."""
    key, public = str(tmp_path / "log.key"), str(tmp_path / "public")

    def published() -> str:
        if not Path(key).exists():
            printed("checkpoint", "key", key, "--origin", "a/log", "--json")
        printed("checkpoint", "publish", public, "--key", key, "--json")
        return str(Path(public) / "checkpoint")

    return published


@carries_out(
    "audit operations --order newest",
    "show sessions",
    "session audit SESSION",
    "thought start SESSION_ID TASK_ID",
)
def test_what_is_not_there_is_looked_for(folder, ledger, note, tmp_path):
    ledger.close()
    options = ("--output", str(tmp_path / "proof"), "--checkpoint", note())
    said = rotulus("prove", "operation", "nobody", *options).stderr
    assert op_id("0") in carry_out(said, "audit operations --order newest").stdout
    said = rotulus("show", "session", "nobody").stderr
    in_door(folder, lambda door: door.declare(SESSION, "a", "b"))
    assert SESSION in carry_out(said, "show sessions").stdout
    options = (*options[:3], note())
    said = rotulus("prove", "elimination", "nobody", *options).stderr
    assert "DECLARE_SESSION" in carry_out(said, "session audit SESSION", SESSION=SESSION).stdout
    said = rotulus("thought", "show", SESSION).stderr
    filled = {"SESSION_ID": SESSION, "TASK_ID": "task"}
    carry_out(said, "thought start SESSION_ID TASK_ID", **filled)
    assert rotulus("thought", "show", SESSION).exit_code == 0


@carries_out("status", "doctor")
def test_a_gateway_and_its_machine_are_looked_at(ledger, note, monkeypatch):
    ledger.close()
    invalid = {"verdict": "invalid", "message": "no note", "quorum_met": False}
    seen: Any = {"problem": None, "checkpoint": invalid}
    [sentence] = map(line_of, attention_items(AttentionFacts(checkpoint=seen)))
    for text in (sentence, RUNBOOK):
        assert "their tiles and the schema verify" in carry_out(text, "doctor", code=1).stdout
    note()
    monkeypatch.setenv("ROTULUS_CHECKPOINT_KEY", "log.key")
    for text in (doctored("published"), RUNBOOK, ALERTS):
        assert "gateway " in carry_out(text, "status", code=1).stdout


# Processes


@carries_out("up", "up --data-dir {}", "worker --queues {}")
@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.skipif(
    sys.platform != "linux", reason="processes of a tree end with their parent there"
)
def test_what_does_not_run_is_started(tmp_path, monkeypatch):
    """A shell runs both commands as they are printed, in a folder whose name it would split."""
    data = tmp_path / "a folder"
    monkeypatch.setenv("ROTULUS_GATEWAY_URL", "http://127.0.0.1:9")
    for ask in (("status",), ("verify",), ("doctor",)):
        said = rotulus("--data-dir", str(data), *ask).output
        words = words_of(said.replace(f" --data-dir '{data}'", ""), "up")
        assert words == ["up"]
    with pytest.raises(GatewayError) as away:
        gateway_address((), data, {})
    words = words_of(f"{away.value}", "up --data-dir {}")
    assert words == ["up", "--data-dir", str(data)]
    with in_shell(shlex.join(["rotulus", *words]), ROTULUS_PORT="0"):
        command = ("status", "--data-dir", str(data))
        wait_for("the tree", lambda: "Nothing needs" in rotulus(*command).output, 60, 0.2)
    fleet = {"ROTULUS_DATA_DIR": str(tmp_path / "fleet"), "ROTULUS_WORKER_TOKEN": "t" * 32}
    fleet["ROTULUS_PORT"] = str(free_port())
    fleet["ROTULUS_GATEWAY_URL"] = url = f"http://127.0.0.1:{fleet['ROTULUS_PORT']}"
    with started_redis(tmp_path) as redis:
        fleet["ROTULUS_REDIS_URL"] = redis.url

        def needing_a_worker() -> str:
            lines = rotulus("status", "--gateway", url).stdout.splitlines()
            return next((line for line in lines if "no worker" in line), "")

        with in_shell("rotulus gateway", **fleet):
            sentence = wait_for("the gateway", needing_a_worker, 60, 0.2)
            words = words_of(sentence.replace(f" --gateway {url}", ""), "worker --queues {}")
            with in_shell(shlex.join(["rotulus", *words]), **fleet):
                queue = words[-1]
                wait_for("a worker", lambda: f"serves {queue}:" not in needing_a_worker(), 60, 0.2)


@contextmanager
def started_redis(folder: Path) -> Iterator[EmbeddedRedis]:
    redis = EmbeddedRedis(folder, find_server())
    redis.start()
    try:
        yield redis
    finally:
        redis.stop()


@contextmanager
def in_shell(line: str, **variables: str) -> Iterator[None]:
    environment = process_environment() | variables
    environment["PATH"] = f"{COMMAND.parent}{os.pathsep}{environment['PATH']}"
    process = subprocess.Popen(
        ["/bin/sh", "-c", f"exec {line}"], env=environment, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)
