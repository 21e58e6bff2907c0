"""`make spec`: which rule of the specification is proved by which tests, from their marks."""

import sys
from collections import defaultdict

import pytest


class _Collector:
    def __init__(self) -> None:
        self.tests_by_rule: dict[str, set[str]] = defaultdict(set)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            for mark in item.iter_markers("spec"):
                for rule in mark.args:
                    self.tests_by_rule[rule].add(item.nodeid.partition("[")[0])


def main() -> int:
    """Print the table."""
    collector = _Collector()
    code = pytest.main(["--collect-only", "-q", "--no-header", "-p", "no:terminal"], [collector])
    for rule, tests in sorted(collector.tests_by_rule.items()):
        sys.stdout.write(f"{rule}\n")
        sys.stdout.writelines(f"    {test}\n" for test in sorted(tests))
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
