"""A child with a user's own code begins anew at each change, and says what does not load."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from tests.workers.api.door import eventually
from workers.process_tree.child_process import ChildSpec
from workers.process_tree.reloaded_child import Reload, ReloadedChild
from workers.process_tree.source_watch import SourceWatch, syntax_problem

pytestmark = [pytest.mark.anyio, pytest.mark.may_block]

CHILD = """
import pathlib, sys, time
assert sys.stdin.buffer.read(1), "nobody let it begin"
exec(pathlib.Path(sys.argv[1]).read_text())
print("says", WORD, flush=True)
pathlib.Path(sys.argv[1]).with_suffix(".ready").write_text(str(__import__("os").getpid()))
time.sleep(60)
"""


class Run:
    """What a file of code came to, as it was told."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "jobs.py"
        self.file.write_text("WORD = 'one'\n")
        self.told: list[Reload] = []
        self.lines: list[bytes] = []
        command = [sys.executable, "-c", CHILD, str(self.file)]
        spec = ChildSpec("worker", command, waits=True)
        self.child = ReloadedChild(spec, self.lines.append, folder, self.is_ready, self.tell)

    async def is_ready(self, pid: int) -> bool:
        ready = self.file.with_suffix(".ready")
        return ready.exists() and ready.read_text() == str(pid)

    async def tell(self, reload: Reload) -> None:
        self.told.append(reload)

    @property
    def happened(self) -> list[str]:
        return [each.happened for each in self.told]


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Run]:
    run = Run(folder)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run.child.run)
        yield run
        tasks.cancel_scope.cancel()


async def test_each_change_begins_a_process_anew_and_a_file_that_is_no_python_does_not(tmp_path):
    async with running(tmp_path) as run:
        await eventually(lambda: run.happened == ["started"])
        run.file.write_text("WORD = 'two'\n")
        await eventually(lambda: run.happened == ["started", "reloaded"])
        assert run.lines == [b"says one\n", b"says two\n"]
        run.file.write_text("WORD = (\n")
        await eventually(lambda: run.happened[2:] == ["not_python"])
        assert run.told[-1].problem.startswith("jobs.py:1: '(' was never closed")
        await anyio.sleep(0.5)
        assert len(run.told) == 3, "the jobs of before go on, and it is said once"
        run.file.write_text("nobody\n")
        await eventually(lambda: run.happened[3:] == ["not_loaded"])
        assert "NameError" in run.told[-1].problem
        run.file.write_text("WORD = 'three'\n")
        await eventually(lambda: run.happened[4:] == ["reloaded"])
        assert run.lines[-1] == b"says three\n"
    pids = {each.pid for each in run.told if each.pid}
    assert len(pids) == 3
    for pid in pids:  # leaving stops all of them
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_a_process_that_ends_by_itself_begins_once_more(tmp_path):
    async with running(tmp_path) as run:
        await eventually(lambda: run.happened == ["started"])
        run.file.with_suffix(".ready").unlink()
        os.kill(run.told[0].pid, 9)
        await eventually(lambda: run.happened == ["started", "ended", "restarted"])
        assert "SIGKILL" in run.told[1].problem


def test_what_is_not_the_users_is_not_watched(tmp_path: Path):
    for name in (".venv", "node_modules", "own", "environment"):
        (tmp_path / name).mkdir()
    (tmp_path / "environment" / "pyvenv.cfg").write_text("")
    watch = SourceWatch(tmp_path)
    for name in (".venv", "node_modules", "own", "environment"):
        (tmp_path / name / "module.py").write_text("")
    (tmp_path / "notes.txt").write_text("")
    assert watch.changed_files() == [tmp_path / "own" / "module.py"]
    (tmp_path / "own" / "module.py").unlink()
    assert watch.changed_files() == [tmp_path / "own" / "module.py"]
    assert watch.changed_files() == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [("a = 1", None), ("a = = 1", "jobs.py:1: invalid syntax"), ("a = '\0'", "jobs.py")],
)
def test_a_file_that_is_no_python_is_named_with_its_line(tmp_path: Path, text, problem):
    path = tmp_path / "jobs.py"
    path.write_text(text)
    said = syntax_problem(path)
    assert (said is None) if problem is None else str(said).startswith(problem)
    assert syntax_problem(tmp_path / "gone.py") is None
