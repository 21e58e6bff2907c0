"""Envelopes a second on PostgreSQL beside SQLite, both waiting for the disk, and over a long line.

    python -m tests.bench.bench_postgres [--json]

The envelopes are the mix of `tests.bench.mix`, those of so many submitters at once on one
committer. The line takes a millisecond each way (`delayed_line.py`), in a process of its own on the
same machine. Figures are the best of a few rounds in turn.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit, urlunsplit

import anyio

from kernel.ledger.postgres.store import PostgresStore
from tests.bench.bench_kernel import Run, prepare_nothing, submit_envelope
from tests.bench.delayed_line import delayed_line
from tests.bench.report import figure, machine
from tests.postgres import own_postgres
from workers.environment.memory import settle_memory

SUBMITTERS = ((1, 300), (100, 40), (200, 25))
"""How many at once, and how many envelopes each submits."""

ONE_WAY_MS = 1.0
ROUNDS = 3
_SOCKET = ".s.PGSQL.5432"


@contextmanager
def _far(url: str) -> Iterator[str]:
    """Lead to a database over the line."""
    parts = urlsplit(url)
    [folder] = parse_qs(parts.query)["host"]
    with (
        tempfile.TemporaryDirectory(prefix="line-") as own,
        delayed_line(Path(own), Path(folder) / _SOCKET, ONE_WAY_MS),
    ):
        yield urlunsplit(parts._replace(query=f"host={quote(own, safe='')}"))


def _rate(store: PostgresStore | None, submitters: int, each: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder), store)
        anyio.run(run.work, prepare_nothing, submit_envelope, submitters, each)
    return submitters * each / run.seconds


def main() -> None:
    settle_memory()
    machine(submitters=[count for count, _ in SUBMITTERS], rounds=ROUNDS, one_way_ms=ONE_WAY_MS)
    with own_postgres() as server:
        server.run("ALTER SYSTEM SET fsync = on")
        server.run("SELECT pg_reload_conf()")
        for submitters, each in SUBMITTERS:
            best = dict.fromkeys(("SQLite", "PostgreSQL", "PostgreSQL over the line"), 0.0)
            for _ in range(ROUNDS):
                near, far = server.new_database(), server.new_database()
                with _far(far) as far_url:
                    for name, store in zip(
                        best, (None, PostgresStore(near), PostgresStore(far_url)), strict=True
                    ):
                        best[name] = max(best[name], _rate(store, submitters, each))
                server.drop(near)
                server.drop(far)
            for name, rate in best.items():
                what = f"envelopes, {submitters} at once, {name}"
                figure(what, rate, "/s", ratio=rate / best["SQLite"], of="SQLite")


if __name__ == "__main__":
    main()
