"""Counts the CPU seconds of each folder of tests, and prints them beside what the folder may use.

A second of CPU is one of the test process or of any process below it, servers included, so that a
busy machine changes the figures less than it changes the time. They are printed only: no run fails
by them. `CPU_SECONDS_OF_TESTS=FILE` has each test's seconds appended to a file, to look for the
dearest.
"""

import os
import resource
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

BUDGETS_S = {
    "actors/commit": 30,
    "actors/forwarding": 2,
    "actors/orchestrator": 7,
    "actors/sessions": 13,
    "actors/sharding": 2,
    "actors/synthesis": 2,
    "chaos": 56,
    "contract": 91,
    "fuzz": 43,
    "generated_clients": 15,
    "kernel": 157,
    "kernel/belief": 9,
    "kernel/bindings": 8,
    "kernel/examples": 2,
    "kernel/landscape": 24,
    "package": 47,
    "properties": 136,
    "queues": 60,
    "queues/embedded": 2,
    "queues/gateways": 4,
    "ratchet": 8,
    "system": 432,
    "workers/api": 97,
    "workers/cli": 83,
    "workers/client": 7,
    "workers/dashboard": 74,
    "workers/demo": 24,
    "workers/dockets": 13,
    "workers/environment": 40,
    "workers/gateway": 9,
    "workers/implications": 27,
    "workers/mcp": 18,
    "workers/models": 5,
    "workers/pipelines": 12,
    "workers/plugins": 13,
    "workers/process_tree": 3,
    "workers/tee": 12,
    "workers/telemetry": 19,
    "workers/use_cases": 13,
    "workers/witness": 4,
    "workers/worker": 24,
}
"""By folder, two levels below `tests/`: the CPU seconds that its tests may use in `make test`.

They are a tenth above what a run used, and at least two; the smallest folders have none.
"""

LIST_VARIABLE = "CPU_SECONDS_OF_TESTS"
_LOADED = "(imports and collection)"
_TESTS = Path(__file__).parent
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class CpuBudget:
    """A plugin of the process that runs tests and, with xdist, of the one that hands them out."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._counted_s = 0.0
        self._used_s: defaultdict[str, float] = defaultdict(float)
        path = os.environ.get(LIST_VARIABLE)
        self._list = None if path is None else Path(path)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Iterator[None]:
        if not self._used_s:
            self._charge(_LOADED)
        try:
            return (yield)
        finally:
            folder = _folder(item)
            if self._list is not None:
                seconds = self._charge(folder)
                with self._list.open("a") as file:
                    file.write(f"{seconds:8.3f} {item.nodeid}\n")
            elif nextitem is None or _folder(nextitem) != folder:
                self._charge(folder)

    def pytest_sessionfinish(self) -> None:
        output = getattr(self._config, "workeroutput", None)
        if output is not None:
            output["cpu_s"] = dict(self._used_s)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        for folder, used_s in getattr(node, "workeroutput", {}).get("cpu_s", {}).items():
            self._used_s[folder] += used_s

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        write = terminalreporter.write_line
        write("CPU seconds by folder, and its budget:")
        for folder, used_s in sorted(self._used_s.items()):
            budget_s = BUDGETS_S.get(folder)
            over = " !" if budget_s is not None and used_s > budget_s else ""
            write(f"  {folder:28}{used_s:8.1f}{'' if budget_s is None else budget_s:>8}{over}")
        write(f"  {'sum':28}{sum(self._used_s.values()):8.1f}{sum(BUDGETS_S.values()):>8}")

    def _charge(self, folder: str) -> float:
        now_s = cpu_s()
        seconds, self._counted_s = now_s - self._counted_s, now_s
        self._used_s[folder] += seconds
        return seconds


def cpu_s() -> float:
    """Return the CPU seconds of this process, and of those below it that run or ended."""
    own = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in own) + sum(
        map(_tree_s, _children(os.getpid()))
    )


def _tree_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it ended meanwhile, or this system has no /proc
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS_PER_S + sum(map(_tree_s, _children(pid)))


def _children(pid: int) -> list[int]:
    children: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                children += map(int, (task / "children").read_text().split())
    return children


def _folder(item: pytest.Item) -> str:
    return "/".join(item.path.parent.relative_to(_TESTS).parts[:2]) or "."
