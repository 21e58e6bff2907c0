"""A ledger is founded whole: who is killed in the middle leaves none, and the next founds it."""

import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from kernel.ledger.sqlite.store import SqliteStore
from kernel.values.errors import LedgerUnavailable
from workers.environment.ledger_access import open_or_create_ledger
from workers.environment.ledger_founding import draft_of
from workers.environment.ledger_verification import verify_file
from workers.environment.system_host import system_host

ROOT = Path(__file__).resolve().parents[3]
KILLED_AT = """
import os, signal, sys
from pathlib import Path
from workers.environment.ledger_access import open_or_create_ledger
from workers.environment.system_host import system_host

calls = 0
def ends(frame, event, argument):
    global calls
    calls += event == "c_call" and argument.__name__ in {"execute", "rename", "close", "open"}
    if calls > int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)

path, host = Path(sys.argv[1]), system_host()
sys.setprofile(ends)
open_or_create_ledger(path, host)
"""
KILLED = (1, 60, 142, 143, 170)
"""After so many calls of the system or of SQLite: the 143rd gives the ledger its name."""


def nothing(_done: int, _total: int) -> None:
    """Progress that nobody looks at."""


def found_ledger(path: Path) -> str:
    open_or_create_ledger(path, system_host()).close()
    with closing(sqlite3.connect(path)) as db:
        (head,) = db.execute("SELECT count(*) FROM chain_head").fetchone()
    return f"{head} head"


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("calls", KILLED)
def test_who_is_killed_while_founding_leaves_no_ledger_or_a_whole_one(tmp_path: Path, calls: int):
    path = tmp_path / "ledger.db"
    command = [sys.executable, "-c", KILLED_AT, str(path), str(calls)]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == -signal.SIGKILL
    if path.exists():
        assert verify_file(path, nothing).ok
    else:
        with pytest.raises(LedgerUnavailable):
            verify_file(path, nothing)
    assert found_ledger(path) == "1 head"
    assert verify_file(path, nothing).ok
    assert names_in(tmp_path) == ["ledger.db"]


def test_of_several_who_found_at_once_one_does(tmp_path: Path):
    path = tmp_path / "ledger.db"
    with ProcessPoolExecutor(4) as founders:
        assert list(founders.map(found_ledger, [path] * 8)) == ["1 head"] * 8
    assert names_in(tmp_path) == ["ledger.db"]


def test_tables_that_hold_nothing_are_no_ledger_yet(tmp_path: Path):
    path = tmp_path / "ledger.db"
    SqliteStore(path).close()
    with pytest.raises(LedgerUnavailable, match="never founded"):
        verify_file(path, nothing)
    open_or_create_ledger(path, system_host()).close()
    assert verify_file(path, nothing).ok


def test_a_draft_is_taken_over_whatever_it_holds(tmp_path: Path):
    path = tmp_path / "ledger.db"
    draft = draft_of(path)
    for suffix in ("", "-wal", "-shm", "-journal"):
        draft.with_name(draft.name + suffix).write_bytes(b"half of a ledger")
    open_or_create_ledger(path, system_host()).close()
    assert verify_file(path, nothing).ok


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path):
    path = tmp_path / "nowhere" / "ledger.db"
    with pytest.raises(LedgerUnavailable, match="nowhere"):
        open_or_create_ledger(path, system_host())
