"""What `/readyz` of each gateway says while the faults of Redis come and go.

Every gateway is asked again and again beside the load. Two things are read from its answers:

- whether it says that Redis does not serve while it does not. Whoever asks is answered from a look
  that is half a second old at most and takes two at most (`queues/redis/watch.py`). So an answer
  that is asked for three seconds after a fault and names no Redis is wrong on any machine,
  however late it comes;
- how long it takes from a fault until this is answered, and from its end until the gateway is
  ready again. A busy machine makes that longer, so that `make chaos` alone holds it to its bound.
"""

import threading
import time
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from types import MappingProxyType
from typing import Any, Self

import httpx
import psycopg

from tests import loopback
from tests.chaos.schedule import KINDS, is_failover

WITHIN_S = 3.0
"""In which readiness turns red after a fault, and green after its end."""

READINESS_BOUNDS: Mapping[str, tuple[str, Collection[str]]] = MappingProxyType(
    {
        "red after a fault of Redis, s": ("red_after_s", KINDS),
        "green after its end, s": ("green_after_s", KINDS),
        "work after a failover, s": ("work_after_s", [*filter(is_failover, KINDS)]),
    }
)
"""What has to come within `WITHIN_S`: how it is named in a report, and of which kinds."""

OF_LEDGER = frozenset({"ledger", "commits"})
"""What `/readyz` calls problems of the ledger."""

PAUSE_S = 0.1
TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Sighting:
    """An answer of a gateway; times are of the monotonic clock."""

    asked_s: float
    answered_s: float
    is_ready: bool
    """Whether nothing is missing but of the ledger, whose faults may last into those of Redis."""

    names_redis: bool


@dataclass(slots=True)
class RedisFault:
    """A fault of Redis as it came to be, and whom it met."""

    kind: str
    gateways: Collection[str]
    """Those that were ready before it."""

    begun_s: float = inf
    """When it was in force."""

    ended_s: float = inf
    """When it was taken back, or another server served."""


@dataclass(slots=True)
class ReadinessWatch:
    """Asks gateways for their readiness, each in a thread, for the time of a block."""

    urls: Mapping[str, str]
    sightings: dict[str, list[Sighting]] = field(init=False)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sightings = {name: [] for name in self.urls}

    def __enter__(self) -> Self:
        for name in self.urls:
            thread = threading.Thread(target=self._watch, args=[name], name=f"readiness of {name}")
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def ready(self, gateways: Iterable[str]) -> list[str]:
        """Return those whose last answer, from a moment ago, was that they are ready."""
        since_s = time.monotonic() - TIMEOUT_S
        last = {name: self.sightings[name][-1:] for name in gateways}
        return [
            name
            for name, sightings in last.items()
            if any(each.is_ready and each.answered_s >= since_s for each in sightings)
        ]

    def red(self, fault: RedisFault) -> bool:
        """Tell whether every gateway has said that Redis does not serve."""
        return all(_red_at_s(self.sightings[name], fault) for name in fault.gateways)

    def green(self, fault: RedisFault) -> bool:
        """Tell whether every gateway was ready after a fault."""
        return all(_green_at_s(self.sightings[name], fault) for name in fault.gateways)

    def _watch(self, name: str) -> None:
        with httpx.Client(verify=loopback.NO_TLS, trust_env=False, timeout=TIMEOUT_S) as http:
            while not self._stop.wait(PAUSE_S):
                asked_s = time.monotonic()
                try:
                    answer = http.get(f"{self.urls[name]}/readyz")
                except httpx.TransportError:
                    continue
                problems: dict[str, Any] = answer.json()["problems"]
                is_ready, names_redis = problems.keys() <= OF_LEDGER, "redis" in problems
                self.sightings[name].append(
                    Sighting(asked_s, time.monotonic(), is_ready, names_redis)
                )


def readiness_times(
    sightings: Mapping[str, Sequence[Sighting]], faults: Iterable[RedisFault]
) -> dict[str, dict[str, float]]:
    """Return by kind of fault how long it took at most: itself, and readiness to follow it."""
    longest: dict[str, dict[str, float]] = {}
    for fault in faults:
        times = longest.setdefault(fault.kind, {})
        seen = [sightings[name] for name in fault.gateways]
        measured = {
            "lasted_s": [fault.ended_s - fault.begun_s],
            "red_after_s": [
                at_s - fault.begun_s for each in seen if (at_s := _red_at_s(each, fault))
            ],
            "green_after_s": [
                at_s - fault.ended_s for each in seen if (at_s := _green_at_s(each, fault))
            ],
        }
        for name, seconds in measured.items():
            if seconds:
                times[name] = max(times.get(name, 0.0), round(max(seconds), 2))
    return longest


def work_times(
    faults: Iterable[RedisFault], spans_s: Sequence[tuple[float, float]]
) -> dict[str, float]:
    """Return by kind how long work waited at most from a fault's end until any was done.

    Args:
        faults: those that ended.
        spans_s: when each piece of work was asked for, and when it was done.
    """
    longest: dict[str, float] = {}
    for fault in faults:
        open_s = [span_s for span_s in spans_s if span_s[1] >= fault.ended_s]
        if open_s:
            first_asked_s = min(asked_s for asked_s, _ in open_s)
            first_done_s = min(done_s for _, done_s in open_s)
            after_s = round(first_done_s - max(first_asked_s, fault.ended_s), 2)
            longest[fault.kind] = max(longest.get(fault.kind, 0.0), after_s)
    return longest


def work_spans(url: str, epoch_s: float) -> list[tuple[float, float]]:
    """Return when each request of a ledger was made and closed, in seconds since `epoch_s`."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT enqueued_at_us, closed_at_us FROM outbox"
            " JOIN outbox_outcomes USING (request_id)"
        )
        return [
            (enqueued_us / 1e6 - epoch_s, closed_us / 1e6 - epoch_s)
            for enqueued_us, closed_us in rows.fetchall()
        ]


def readiness_bounds(
    readiness: Mapping[str, Mapping[str, float]],
) -> dict[str, dict[str, float]]:
    """Return what was measured of each thing that is bounded, beside its bound."""
    return {
        name: {
            "was": max(
                (times.get(of, 0.0) for kind, times in readiness.items() if kind in kinds),
                default=0.0,
            ),
            "at most": WITHIN_S,
        }
        for name, (of, kinds) in READINESS_BOUNDS.items()
    }


def readiness_findings(
    sightings: Mapping[str, Sequence[Sighting]],
    faults: Iterable[RedisFault],
    reddening: Collection[str],
) -> list[str]:
    """Return what is wrong of what gateways said, on however busy a machine."""
    return [finding for fault in faults for finding in _findings(sightings, fault, reddening)]


def _findings(
    sightings: Mapping[str, Sequence[Sighting]], fault: RedisFault, reddening: Collection[str]
) -> Iterator[str]:
    for name in fault.gateways:
        seen = sightings[name]
        if fault.kind in reddening:
            if _red_at_s(seen, fault) is None:
                yield f"{name} was not red after {fault.kind}"
            for each in seen:
                after_s = each.asked_s - fault.begun_s
                if after_s > WITHIN_S and each.answered_s < fault.ended_s and not each.names_redis:
                    yield f"{name} named no Redis, asked {after_s:.2f} s after {fault.kind}"
        if _green_at_s(seen, fault) is None:
            yield f"{name} was not ready again after {fault.kind}"


def _red_at_s(sightings: Sequence[Sighting], fault: RedisFault) -> float | None:
    """Return when a gateway said first, while a fault was in force, that Redis does not serve."""
    for each in sightings[_first_after(sightings, fault.begun_s) :]:
        if each.names_redis:
            return each.answered_s if each.answered_s <= fault.ended_s else None
    return None


def _green_at_s(sightings: Sequence[Sighting], fault: RedisFault) -> float | None:
    """Return when a gateway was first ready of those times that it was asked after a fault."""
    for each in sightings[_first_after(sightings, fault.ended_s) :]:
        if each.is_ready and each.asked_s >= fault.ended_s:
            return each.answered_s
    return None


def _first_after(sightings: Sequence[Sighting], at_s: float) -> int:
    return bisect_left(sightings, at_s, key=lambda sighting: sighting.answered_s)
