"""Routing an event to its bindings (§13.4): more and more exist, and as many match as before.

    python -m tests.bench.bench_routing [--json]

Each event matches ten bindings, whether 100, 10,000 or 100,000 are active. The shapes are what an
index could be bad at: bindings for one source each; for one literal path each; for a name of their
own between wildcards, all in one folder; the same below any folder; and all of one kind of source,
which only their ids tell apart. Figures are CPU time, taken in turn over the sizes of one run; the
peer asks each binding, one by one.
"""

import gc
import resource
import time
from collections.abc import Callable, Iterable, Mapping

from kernel.model.bindings.routing import RoutingIndex
from kernel.model.bindings.selectors import SelectorList, read_selector_list
from tests.bench.report import figure, machine, note

SIZES = (100, 10_000, 100_000)
MATCHES = 10
EVENTS = 500
ROUNDS = 7
PEER, PEER_SIZE = "asking each", 10_000
"""The peer, and how many bindings it asks."""


def _path(group: int) -> str:
    return f"dockets/ca{group % 13}/case-{group:06}/entry-17.pdf"


SHAPES: Mapping[str, Callable[[int], dict[str, str]]] = {
    "a source each": lambda group: {"source_id": f"case-{group:06}"},
    "a path each": lambda group: {"source_path": _path(group)},
    "a name between wildcards each": lambda group: {"source_path": f"dockets/*/*{group:06}*/*.pdf"},
    "a name below any folder each": lambda group: {"source_path": f"**/case-{group:06}/**/*.pdf"},
    "a source, its kind and a path each": lambda group: {
        "source_kind": "docket",
        "source_id": f"case-{group:06}",
        "source_path": "dockets/**/entry-*.pdf",
    },
}
"""What the bindings of a group, which match the same events, include."""


def bindings(shape: str, size: int) -> dict[str, SelectorList]:
    """Return bindings by id, ten for each group."""
    made = {}
    for number in range(size):
        include = [
            {"kind": kind, "value": value}
            for kind, value in SHAPES[shape](number // MATCHES).items()
        ]
        made[f"binding-{number}"] = read_selector_list({"include": include})
    return made


def events(size: int) -> list[dict[str, str]]:
    """Return events, each of a group that has bindings."""
    groups = size // MATCHES
    return [
        {"source_kind": "docket", "source_id": f"case-{group:06}", "source_path": _path(group)}
        for group in (number * 7919 % groups for number in range(EVENTS))
    ]


def _cpu_s(run: Callable[..., None], *arguments: object) -> float:
    started = time.process_time()
    run(*arguments)
    return time.process_time() - started


def put_all(index: RoutingIndex, made: Mapping[str, SelectorList]) -> None:
    for binding_id, selectors in made.items():
        index.put(binding_id, selectors)


def match_all(index: RoutingIndex, events: Iterable[dict[str, str]]) -> None:
    for event in events:
        index.match(event)


def ask_all(made: Mapping[str, SelectorList], events: Iterable[dict[str, str]]) -> None:
    for event in events:
        [key for key, each in made.items() if each.matches(event)]


def measure(shape: str) -> None:
    """Print the figures of one shape."""
    made = {size: bindings(shape, size) for size in SIZES}
    events_by_size = {size: events(size) for size in SIZES}
    indexes = {size: RoutingIndex() for size in SIZES}
    built_s = {size: _cpu_s(put_all, indexes[size], made[size]) for size in SIZES}
    for size in SIZES:
        matched = {len(indexes[size].match(event)) for event in events_by_size[size]}
        if matched != {MATCHES}:
            raise SystemExit(f"{shape}: {matched} bindings match, not {MATCHES}")
    best_s = dict.fromkeys(SIZES, float("inf"))
    gc.disable()
    for _ in range(ROUNDS):
        for size in SIZES:
            spent_s = _cpu_s(match_all, indexes[size], events_by_size[size])
            best_s[size] = min(best_s[size], spent_s / EVENTS)
    gc.enable()
    for size in SIZES:
        ratio, of = best_s[size] / best_s[SIZES[0]], f"the cost at {SIZES[0]}"
        figure(f"{shape}: events against {size}", 1 / best_s[size], "/s", ratio=ratio, of=of)
    some = events_by_size[PEER_SIZE][:2]
    ask_all(made[PEER_SIZE], some)  # what is compiled at the first time is compiled
    ratio = _cpu_s(ask_all, made[PEER_SIZE], some) / len(some) / best_s[PEER_SIZE]
    figure(f"{shape}: the rate at {PEER_SIZE}", 1 / best_s[PEER_SIZE], "/s", ratio=ratio, of=PEER)
    most = SIZES[-1]
    figure(f"{shape}: bindings put into the index", most / built_s[most], "/s")


def main() -> None:
    """Print a rate for each shape and size."""
    machine(matches=MATCHES)
    for shape in SHAPES:
        measure(shape)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    note(f"peak of the process with all selector lists and indexes of a shape: {peak_mb:,.0f} MB")


if __name__ == "__main__":
    main()
