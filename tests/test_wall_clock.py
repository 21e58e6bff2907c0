"""No test of the day fails because a machine was busy: bounds of wall-clock time hold at night."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

TESTS = Path(__file__).parent
HOLDING = TESTS / "wall_clock.py"
NOT_BY_DAY = frozenset({"bench"})
CLOCKS = frozenset({"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "current_time"})
"""Functions that read a clock which runs while a process waits for a processor."""


def test_no_assert_of_the_day_bounds_how_long_something_took():
    """Such a bound goes to `hold_at_night`; by day a count, an order or an outcome is asserted."""
    bounds = [
        f"{path.relative_to(TESTS)}:{line}"
        for path in sorted(TESTS.rglob("*.py"))
        if path != HOLDING and path.relative_to(TESTS).parts[0] not in NOT_BY_DAY
        for line in bounds_of_time(path.read_text())
    ]
    assert bounds == []


def test_such_an_assert_is_seen_wherever_the_difference_was_taken():
    began = "began_s = time.monotonic()\n"
    for bounding in (
        "assert time.monotonic() - began_s < 1",
        "took_s = time.monotonic() - began_s\nassert took_s <= 1, took_s",
        "took_s = [time.monotonic() - began_s]\nassert 1 > sum(took_s)",
        "took_s = []\ntook_s.append(ended_s - began_s)\nassert sum(took_s) < 4",
        "def took():\n    return anyio.current_time() - began_s\nassert 0 <= took() < 1",
    ):
        assert list(bounds_of_time(began + bounding)), bounding
    for other in (
        "assert time.monotonic() - began_s >= 1",
        "assert time.monotonic() < deadline_s, 'it hangs'",
        "assert time.process_time() - used_s < 5 * baseline_s",
    ):
        assert not list(bounds_of_time(began + other)), other


def bounds_of_time(source: str) -> Iterator[int]:
    """Yield the lines of asserts that hold a difference of times of the clock below something."""
    if not any(clock in source for clock in CLOCKS):
        return
    module = ast.parse(source)
    names = TimeNames(module)
    at_night = {
        id(part)
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and any(ast.unparse(mark) == "pytest.mark.nightly" for mark in node.decorator_list)
        for part in ast.walk(node)
    }
    for node in ast.walk(module):
        if isinstance(node, ast.Assert) and id(node) not in at_night:
            compares = (part for part in ast.walk(node.test) if isinstance(part, ast.Compare))
            if any(holds_below(compare, names.has_span) for compare in compares):
                yield node.lineno


class TimeNames:
    """The names that a module gives to times of the clock, and to differences of them."""

    def __init__(self, module: ast.Module) -> None:
        bound = [*bindings(module)]
        self._times = {name for name, value in bound if reads_a_clock(value)}
        self._spans: set[str] = set()
        while added := {name for name, value in bound if self.has_span(value)} - self._spans:
            self._spans |= added

    def has_span(self, value: ast.expr) -> bool:
        """Tell whether a difference of times is in an expression, itself or by its name."""
        return any(
            name_of(part) in self._spans or self._is_difference(part) for part in ast.walk(value)
        )

    def _is_difference(self, node: ast.AST) -> bool:
        return (
            isinstance(node, ast.BinOp)
            and isinstance(node.op, ast.Sub)
            and any(
                reads_a_clock(part) or name_of(part) in self._times
                for side in (node.left, node.right)
                for part in ast.walk(side)
            )
        )


def bindings(module: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Yield each name with what it is bound to, a list with what is put in, a function's answer."""
    for node in ast.walk(module):
        pairs: list[tuple[ast.AST, ast.expr | None]] = []
        if isinstance(node, ast.Assign):
            pairs = [(target, node.value) for target in node.targets]
        elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
            pairs = [(node.target, node.value)]
        elif isinstance(node, ast.Call) and name_of(node.func) == "append":
            pairs = [(part, node.args[0]) for part in ast.iter_child_nodes(node.func)]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for part in ast.walk(node):
                if isinstance(part, ast.Return) and part.value is not None:
                    yield node.name, part.value
        for target, value in pairs:
            if value is not None and (name := name_of(target)) is not None:
                yield name, value


def reads_a_clock(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and name_of(node.func) in CLOCKS


def name_of(node: ast.AST) -> str | None:
    """Return the last part of a name; None for anything else."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def holds_below(compare: ast.Compare, is_span: Callable[[ast.expr], bool]) -> bool:
    sides = [compare.left, *compare.comparators]
    return any(
        is_span(left if isinstance(how, ast.Lt | ast.LtE) else right)
        for left, how, right in zip(sides, compare.ops, sides[1:], strict=False)
        if isinstance(how, ast.Lt | ast.LtE | ast.Gt | ast.GtE)
    )
