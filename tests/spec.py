"""`make spec`: which rule of the specification is proved by which tests, from their marks.

Beside the marks stand the tables of rulings: each row is shown with its tests, and one that names
no test, or a test that was not collected, ends the command with 1.
"""

import sys
from collections import defaultdict

import pytest

from tests.rulings import rulings

# Without a terminal plugin pytest knows no -q, which the project's own options hold.
_OPTIONS = [
    *("-o", "addopts=--strict-markers --import-mode=importlib -p no:cacheprovider"),
    *("-p", "no:terminal", "--collect-only"),
]


class _Collector:
    def __init__(self) -> None:
        self.tests: set[str] = set()
        self.tests_by_rule: dict[str, set[str]] = defaultdict(set)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            name = item.nodeid.partition("[")[0]
            self.tests.add(name)
            for mark in item.iter_markers("spec"):
                for rule in mark.args:
                    self.tests_by_rule[rule].add(name)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            sys.stderr.write(f"{report.nodeid}: {report.longrepr}\n")


def main() -> int:
    """Print the table, then the rulings; return 1 where a ruling has no test that exists."""
    collector = _Collector()
    code = int(pytest.main(_OPTIONS, [collector]))
    for rule, tests in sorted(collector.tests_by_rule.items()):
        _print(rule, tests)
    for ruling in rulings():
        name = f"{ruling.folder}/rulings.md: {ruling.rule}"
        _print(name, ruling.tests)
        missing = set(ruling.tests) - collector.tests
        if missing or not ruling.tests:
            sys.stderr.write(f"{name} needs a test that exists: {sorted(missing)}\n")
            code = code or 1
    return code


def _print(rule: str, tests: set[str] | tuple[str, ...]) -> None:
    sys.stdout.write(f"{rule}\n")
    sys.stdout.writelines(f"    {test}\n" for test in sorted(tests))


if __name__ == "__main__":
    sys.exit(main())
