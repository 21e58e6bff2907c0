"""Runs against their seals: every record of a sealed run read and digested again (ruling L4).

A run without a seal is running, or its process ended before the seal; its records are those of its
groups (`record_groups.py`), as those of a sealed run are.
"""

from hashlib import sha256
from itertools import islice

import orjson
from sqlalchemy import Table

from kernel.landscape.digest import RunDigest, digest_of
from kernel.landscape.errors import RecordDamaged
from kernel.landscape.run_rules import run_problems
from kernel.landscape.runtime.records import digest_of_stretch
from kernel.landscape.runtime.stretches import stretch_of_id
from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.ledger.store.tables import Row, TableQuery
from kernel.values.errors import LedgerCorrupt
from kernel.verify.reading import Reader

_PAYLOADS_AT_ONCE = 16
_PROBLEMS_MAX = 100
"""Of each run, that are named."""


def check_runs(reader: Reader, view: LedgerView) -> None:
    """Hold every sealed run against its seal, and what runs have kept against its hashes."""
    for seal in reader.pages(schema.landscape_seals):
        with reader.findings.guard(schema.landscape_runs, seal["run_id"]):
            _check_run(reader, view, seal)
    for table in (*schema.LANDSCAPE_TABLES, schema.landscape_payloads):
        with reader.findings.guard(table, "runs"):
            _name_orphans(reader, table)
    for run in reader.pages(schema.landscape_runs):
        with reader.findings.guard(schema.landscape_payloads, run["run_id"]):
            _check_payloads(reader, run["run_id"])
        with reader.findings.guard(schema.landscape_runs, run["run_id"]):
            _check_together(reader, run)


def _name_orphans(reader: Reader, table: Table) -> None:
    for run_id, _ in reader.tables.scan(TableQuery(table, columns=("run_id",), grouped=True)):
        if reader.get(schema.landscape_runs, run_id) is None:
            reader.findings.add(table, run_id, "extra", "there is no such run")


def _check_payloads(reader: Reader, run_id: str) -> None:
    table = schema.landscape_payloads
    for payload in reader.pages(table, {"run_id": run_id}, page_rows=_PAYLOADS_AT_ONCE):
        content, content_hash = payload["content"], payload["content_hash"]
        if not isinstance(content, bytes) or sha256(content).hexdigest() != content_hash:
            key = f"{run_id}/{content_hash}"
            reader.findings.add(table, key, "bytes_changed", "the content has another hash")


def _check_together(reader: Reader, run: Row) -> None:
    try:
        for problem in islice(run_problems(reader.tables, run), _PROBLEMS_MAX):
            reader.findings.add(problem.table, problem.key, "link_broken", problem.rule)
    except RecordDamaged as damaged:
        reader.findings.add(damaged.table, damaged.key, "field_differs", damaged.rule)


def _check_run(reader: Reader, view: LedgerView, seal: Row) -> None:
    run_id, findings = seal["run_id"], reader.findings
    is_stored = reader.get(schema.landscape_runs, run_id) is not None
    stretch = None if is_stored else stretch_of_id(view, run_id)
    if not is_stored and stretch is None:
        findings.add(schema.landscape_runs, run_id, "missing", "its seal is on the log")
        return
    try:
        # The records of a run of the runtime follow from the log; others are stored.
        digest = digest_of(view, run_id) if stretch is None else digest_of_stretch(view, stretch)
    except RecordDamaged as damaged:
        findings.add(damaged.table, damaged.key, "field_differs", damaged.rule)
        return
    except LedgerCorrupt as error:
        findings.add(schema.landscape_runs, run_id, "unreadable", str(error))
        return
    if digest.run_digest != seal["run_digest"]:
        _name_tables(reader, digest, orjson.loads(seal["table_digests"]))


def _name_tables(reader: Reader, digest: RunDigest, sealed: dict[str, dict[str, object]]) -> None:
    for name in sorted(sealed.keys() | digest.table_digests.keys()):
        was, is_now = sealed.get(name), digest.table_digests.get(name)
        if was != is_now:
            message = f"the run's records are not those that its seal states: {is_now} is not {was}"
            reader.findings.add(f"landscape_{name}", digest.run_id, "digest_differs", message)
