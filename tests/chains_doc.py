"""A table of what is found of one who owns the file and computes one of its chains anew.

Each scenario is written twice by the program itself, at the same times and under the same names:
as it was, and with one thing that was not. Of the second the adversary takes the tables of one
chain into the first, and leaves the log as it is; or all of it. `make tamper` puts the table into
`kernel/verify/REFERENCE.md`; a test compares.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from unittest.mock import patch

from sqlalchemy import Table

from actors.commit.thought_units import (
    ChainVerifiedUnit,
    FinalizeUnit,
    RecordThoughtUnit,
    Sealing,
    StartAuditSessionUnit,
)
from kernel.landscape.recorder import Recorder
from kernel.ledger import schema
from kernel.ledger.ledger import Ledger, LedgerView
from kernel.ledger.store.memory import MemoryStore
from kernel.ledger.store.tables import Row, TableQuery
from kernel.proof.signing_keys import KeyKind, SeedKey
from kernel.thoughts.reading import read_chain
from kernel.verify import verify
from kernel.verify.reading import Finding
from kernel.verify.since import KeptTree, verify_since
from tests.actors.harness import bench_on
from tests.kernel import build
from tests.kernel.build import FakeHost, create, submit
from tests.kernel.honest import Believer
from tests.kernel.jobs import do_jobs, seal_receipts
from tests.kernel.landscape.runs import begin_with_token, step
from tests.kernel.landscape.runs import seal as seal_run

Write = Callable[[Ledger, bool], Iterator[None]]
"""Writes a scenario, with what was not so where it is told to; pauses at the older checkpoint."""

_RECEIPTS = (schema.receipts, schema.chain_head)
_OUTCOMES = (*_RECEIPTS, schema.outbox_outcomes)
_BELIEF = (
    *(schema.belief_events, schema.belief_sessions, schema.belief_snapshots),
    schema.belief_anchors,
)
_RUNS = (*schema.LANDSCAPE_TABLES, schema.landscape_record_groups)
_THOUGHTS = (schema.audit_sessions, schema.thought_records, schema.merkle_nodes, schema.blobs)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A way to write a record, and the tables of the chain that the adversary computes anew."""

    write: Write
    chain: tuple[Table, ...]


def _jobs(ledger: Ledger, forged: bool) -> Iterator[None]:  # noqa: FBT001 - of a table
    do_jobs(ledger, {"width": 40})
    seal_receipts(ledger)
    yield
    do_jobs(ledger, {"width": 9999 if forged else 80}, {"width": 120})
    seal_receipts(ledger)


def _jobs_among_operations(ledger: Ledger, forged: bool) -> Iterator[None]:  # noqa: FBT001
    submit(ledger, create("n-1", "Note"))
    yield
    do_jobs(ledger, {"width": 9999 if forged else 80})
    submit(ledger, create("n-2", "Note"))
    do_jobs(ledger, {"width": 120})
    seal_receipts(ledger)


def _refusals(ledger: Ledger, forged: bool) -> Iterator[None]:  # noqa: FBT001
    submit(ledger, create("n-1", "Note"))
    yield
    verb = "no-such-verb" if forged else "no-verb"
    submit(ledger, create("n-2", "Note") | {"semantic_intent": verb})
    seal_receipts(ledger)


def _trail(ledger: Ledger, forged: bool) -> Iterator[None]:  # noqa: FBT001
    believer = Believer(ledger, "s-1", 4)
    yield
    believer.eliminate("h-002" if forged else "h-001")
    believer.eliminate("h-003")


def _thoughts(ledger: Ledger, forged: bool) -> Iterator[None]:  # noqa: FBT001
    sealing = Sealing((SeedKey("example.com/agent", KeyKind.ED25519, b"a" * 32),), 1)
    with bench_on(ledger) as context:
        StartAuditSessionUnit("audit-1", "task-1").run(context)
    yield
    for unit in (
        RecordThoughtUnit("audit-1", "t-0", "analysis", "not so" if forged else "so"),
        RecordThoughtUnit("audit-1", "t-1", "reflection", "done"),
    ):
        with bench_on(ledger) as context:
            unit.run(context)
    with ledger.view() as view:
        chain = read_chain(view, "audit-1")
    with bench_on(ledger) as context:
        ChainVerifiedUnit("audit-1", *chain).run(context)
        FinalizeUnit("audit-1", sealing).run(context)


def _run(ledger: Ledger, forged: bool) -> Iterator[None]:  # noqa: FBT001
    submit(ledger, create("n-1", "Note"))
    yield
    recorder = Recorder(ledger)
    recorder.begin_run({"threshold": 0.9 if forged else 0.5}, run_id="run-1", source_schema={})
    recorder.complete_run("run-1")
    seal_run(ledger)


def _unfinished_run(ledger: Ledger, forged: bool) -> Iterator[None]:  # noqa: FBT001
    submit(ledger, create("n-1", "Note"))
    yield
    recorder = Recorder(ledger)
    begin_with_token(recorder)
    step(recorder, {"run_id": "run-1", "token_id": "t"}, "parse", 0, {"n": 2 if forged else 1})
    recorder.complete_run("run-1", "interrupted")
    seal_receipts(ledger)


def _run_that_goes_on(ledger: Ledger, forged: bool) -> Iterator[None]:  # noqa: FBT001
    submit(ledger, create("n-1", "Note"))
    yield
    recorder = Recorder(ledger)
    begin_with_token(recorder)
    recorder.flush()
    seal_receipts(ledger)
    routed = "unsure" if forged else "sure"
    recorder.record_token_outcome("run-1", "t", "completed", sink_name=routed)
    recorder.flush()
    seal_receipts(ledger)


SCENARIOS = {
    "the outcome of a plug-in's job, of jobs alone, sealed at a stop": Scenario(_jobs, _OUTCOMES),
    "the outcome of a plug-in's job among operations": Scenario(_jobs_among_operations, _OUTCOMES),
    "a receipt: what was refused and why": Scenario(_refusals, _RECEIPTS),
    "the trail of a belief session": Scenario(_trail, _BELIEF),
    "the thoughts of a session": Scenario(_thoughts, _THOUGHTS),
    "the records of a run that is sealed": Scenario(_run, _RUNS),
    "the records of a run that was interrupted": Scenario(_unfinished_run, _RUNS),
    "the records of a run that goes on": Scenario(_run_that_goes_on, _RUNS),
}


@dataclass(frozen=True, slots=True)
class Written:
    """A record, and the heads of its tree that were kept elsewhere."""

    ledger: Ledger
    older: KeptTree
    newer: KeptTree


def written(scenario: Scenario, *, forged: bool) -> Written:
    """Write a scenario; what was kept is the head at its pause, and that at its end."""
    ledger = Ledger.create(MemoryStore(), FakeHost().host)
    kept = []
    with patch.object(build, "OPERATION_NUMBERS", itertools.count(1)):
        for _ in itertools.chain(scenario.write(ledger, forged), [None]):
            tree = ledger.read(lambda view: view.log_tree())
            kept.append(KeptTree(tree.size, tree.root()))
    return Written(ledger, *kept)


def chain_alone(scenario: Scenario) -> Ledger:
    """Return the record as it was, but for the tables of one chain."""
    honest, forged = (written(scenario, forged=each).ledger for each in (False, True))
    store = MemoryStore()
    with honest.view() as view, forged.view() as other, store.transaction() as tables:
        for table in schema.metadata.tables.values():
            if table not in scenario.chain:
                rows = view.tables.scan(TableQuery(table))
            elif table is schema.chain_head:
                rows = _with_other_receipts(view, other)
            elif table is schema.blobs:
                rows = _with_other_contents(view, other)
            else:
                rows = other.tables.scan(TableQuery(table))
            tables.insert_many(table, rows)
    return Ledger(store, FakeHost().host)


def _with_other_receipts(view: LedgerView, other: LedgerView) -> list[Row]:
    """Return the head of a record, at the end of another's chain of receipts."""
    [head], [their] = (each.tables.scan(TableQuery(schema.chain_head)) for each in (view, other))
    return [head | {name: their[name] for name in ("receipt_sequence", "receipt_hash")}]


def _with_other_contents(view: LedgerView, other: LedgerView) -> list[Row]:
    """Return the envelopes of a record and the contents of another's thoughts."""
    ours, theirs = map(_envelopes, (view, other))
    rows = [row for row in view.tables.scan(TableQuery(schema.blobs)) if row["blob_ref"] in ours]
    others = (
        row for row in other.tables.scan(TableQuery(schema.blobs)) if row["blob_ref"] not in theirs
    )
    return [*rows, *others]


def _envelopes(view: LedgerView) -> set[str]:
    return {row["envelope_payload_blob_ref"] for row in view.log_rows(limit=100)}


def rules_of_chain(scenario: Scenario, *, forged: bool = True) -> list[str]:
    """Return the rule of the first finding, or no, for each adversary and each thing kept."""
    honest = written(scenario, forged=False)
    alone = chain_alone(scenario) if forged else honest.ledger
    with alone.view() as view:
        rules = [_rule(verify(view).findings)]
    with written(scenario, forged=forged).ledger.view() as view:
        whole = verify(view).findings
        rules.append(_rule(whole))
        since = [verify_since(view, kept).findings for kept in (honest.older, honest.newer)]
    return rules + [_rule((*whole, *findings)) for findings in since]


def _rule(findings: Sequence[Finding]) -> str:
    return findings[0].rule if findings else "no"


def chains_table() -> str:
    """Let each adversary do it and return the table."""
    lines = [
        "| Whoever owns the file changes | That chain anew | All anew | Older head | Checkpoint |",
        "|---|---|---|---|---|",
    ]
    for name, scenario in SCENARIOS.items():
        lines.append(f"| {name} | {' | '.join(rules_of_chain(scenario))} |")
    return "\n".join(lines)
