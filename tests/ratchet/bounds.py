"""The bounds of the counts: a file that `make ratchet` lowers, and never raises by itself.

    python -m tests.ratchet.bounds [--raise NAME ...]

The command counts everything, writes down what has become less, and ends with 1 where a count is
over its bound. `--raise` takes the names of counts whose bounds may go up; the message of the
commit that raises a bound says what is had for it.
"""

import argparse
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import structlog

from tests.bench.report import note
from tests.postgres import running_postgres
from tests.ratchet.counts import ON_A_TREE, ON_POSTGRES, ON_SQLITE, Counts

FILE = Path(__file__).with_name("bounds.toml")

TOLERANCE = 0.015
"""What a count may be off its bound: sets are walked in another order in each process."""

TOLERANCES = {"idle_timers": 0.06}
"""The same of counts with a clock in them: on a busy machine loops are late, which lowers them."""


def bounds() -> dict[str, Counts]:
    return tomllib.loads(FILE.read_text())


def over(name: str, counts: Counts) -> list[str]:
    """Return what is over its bound, one sentence each."""
    known = bounds()[name]
    return [
        f"{name}.{count} is {value:.2f}, and its bound is {known[count]:.2f}"
        for count, value in counts.items()
        if value > known[count] * (1 + TOLERANCES.get(name, TOLERANCE))
    ]


def under(name: str, counts: Counts) -> list[str]:
    """Return the bounds that are too high for what is counted, one sentence each.

    Where a clock has a part in the counts there are none: `make ratchet` lowers those.
    """
    known = bounds()[name] if name not in TOLERANCES else {}
    return [
        f"{name}.{count} is {value:.2f}, and its bound is still {known[count]:.2f}"
        for count, value in counts.items()
        if value < known.get(count, 0) * (1 - 2 * TOLERANCE)
    ]


def counted() -> Iterator[tuple[str, Counts]]:
    """Count everything."""
    for name, count in {**ON_SQLITE, **ON_A_TREE}.items():
        yield name, count()
    with running_postgres() as server:
        for name, count_at in ON_POSTGRES.items():
            yield name, count_at(server.new_database())


def lowered(known: dict[str, Counts], new: dict[str, Counts], raised: list[str]) -> str:
    """Return the file with each bound that is new, lower or named."""
    lines = []
    for name, counts in new.items():
        lines.append(f"\n[{name}]")
        for count, value in counts.items():
            bound = known.get(name, {}).get(count, value)
            is_raised = f"{name}.{count}" in raised
            least = bound * (1 - TOLERANCES.get(name, TOLERANCE))
            kept = value if is_raised or value < least else bound
            lines.append(f"{count} = {round(kept, 2)}")
    return "\n".join(lines).lstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--raise", dest="raised", nargs="*", default=[], metavar="NAME")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    known = bounds()
    new = dict(counted())
    FILE.write_text(lowered(known, new, options.raised))
    too_much = [line for name, counts in new.items() for line in over(name, counts)]
    for name, counts in new.items():
        note(f"{name}: " + ", ".join(f"{count} {value:.2f}" for count, value in counts.items()))
    for line in too_much:
        note(line)
    sys.exit(bool(too_much))


if __name__ == "__main__":
    main()
