"""Counts what each principal uses of this gateway, and refuses what goes beyond its limits.

What is counted by time (requests, bytes, calls of a model, refusals) leaks away evenly: a principal
is refused while as much as two seconds' worth, or a minute's worth of what is limited by the
minute, has not leaked away. What it uses besides has been begun and has not ended. A request that
is refused for a limit uses none of it, so who comes again when the answer says is let in.

Counts are in memory, at each gateway by itself, and begin anew with it. Principals come from keys
that stand, and of those that asked at all the newest are remembered (`PRINCIPALS_MAX`). Open
requests are remembered by their ids; which of them have ended is looked up when a principal is at
its limit, at most once a second, so that a request below it costs nothing (decision workers/0640).
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from itertools import islice
from math import ceil
from typing import Final

from kernel.records.access.records import KEYS_MAX
from kernel.values.errors import KernelError
from workers.environment.principal_limits import PrincipalLimits

PRINCIPALS_MAX: Final = KEYS_MAX
"""Principals in memory; a forgotten one begins anew."""

OPEN_IDS_MAX: Final = 100_000
"""Ids of open requests in memory, of all principals together."""

BURST_S: Final = 2
LOOK_EVERY_S: Final = 1.0
LOOK_IDS_MAX: Final = 4_096
"""Open requests of a principal of which one look asks whether they have ended."""

_MINUTE_S: Final = 60
_ROUNDING: Final = 1e-6
_FORGOTTEN_AT_ONCE: Final = 1_024

Clock = Callable[[], float]


class PrincipalLimited(KernelError):
    """A principal is at one of its limits; nothing was done."""

    def __init__(self, principal: str, limit: str, most: int, wait_s: float = 1) -> None:
        retry_after_s = max(1, ceil(wait_s))
        super().__init__(
            f"{principal} is at its limit of {limit} ({most}) at this gateway; ask again after"
            f" {retry_after_s} s, or have an operator raise it in ROTULUS_PRINCIPAL_LIMITS",
            code="principal_limited",
        )
        self.details = {"limit": limit, "most": most, "retry_after_s": retry_after_s}


class LeakyCount:
    """What was used and has not leaked away yet; something is begun while one more of it fits."""

    def __init__(self, most: int, period_s: int, burst_s: int) -> None:
        self.most = most
        self._per_s = most / period_s
        self._fits = most / period_s * burst_s
        self._used = 0.0
        self._at_s = 0.0

    def wait_s(self, now_s: float) -> float:
        """Return how long it takes until something may be begun; 0 where it may now."""
        self._leak(now_s)
        beyond = self._used + 1 - self._fits
        return 0.0 if beyond < _ROUNDING else beyond / self._per_s

    def use(self, amount: int, now_s: float) -> None:
        """Count what is begun, however much it is."""
        self._leak(now_s)
        self._used += amount

    def _leak(self, now_s: float) -> None:
        self._used = max(0.0, self._used - (now_s - self._at_s) * self._per_s)
        self._at_s = now_s


class PrincipalUse:
    """What one principal uses."""

    def __init__(
        self,
        principal: str,
        limits: PrincipalLimits,
        clock: Clock,
        grown: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Begin with nothing; `grown` is told of how many open requests were added."""
        self.principal = principal
        self._grown = grown
        self.limits = limits
        self.in_flight = self.streams = self.waits = 0
        self.open_ids: dict[str, None] = {}
        """Open requests, of which some may have ended since the last look, in the order of it."""

        self.limited: Counter[str] = Counter()
        """How often it was refused, by limit."""

        self._clock = clock
        self._asking = 0
        self._looked_at_s = float("-inf")
        self._rates = {
            "requests_per_s": LeakyCount(limits.requests_per_s, 1, BURST_S),
            "bytes_per_s": LeakyCount(limits.bytes_per_s, 1, BURST_S),
            "model_calls_per_min": LeakyCount(limits.model_calls_per_min, _MINUTE_S, _MINUTE_S),
            "refusals_per_min": LeakyCount(limits.refusals_per_min, _MINUTE_S, _MINUTE_S),
        }

    def begin(self, body_bytes: int, *, is_stream: bool) -> None:
        """Count a request that has come.

        Raises:
            PrincipalLimited: for one of the limits by time, of streams or of requests in flight.
        """
        for name in ("requests_per_s", "bytes_per_s", "refusals_per_min"):
            self._check_rate(name)
        if is_stream:
            self._check("streams", self.streams + 1)
        else:
            self._check("requests_in_flight", self.in_flight + 1)
        self.note("requests_per_s", 1)
        self.note("bytes_per_s", body_bytes)

    @contextmanager
    def count_in_flight(self, *, is_stream: bool) -> Iterator[None]:
        """Count a request among those in flight, or among the streams, while the block runs."""
        token = _current.set(self)
        self._move(1, is_stream=is_stream)
        try:
            yield
        finally:
            self._move(-1, is_stream=is_stream)
            _current.reset(token)

    def note(self, name: str, amount: int) -> None:
        """Count what is limited by time."""
        self._rates[name].use(amount, self._clock())

    def call_model(self) -> None:
        """Count a call of a model. Raises `PrincipalLimited`."""
        self._check_rate("model_calls_per_min")
        self.note("model_calls_per_min", 1)

    @contextmanager
    def waiting(self, count: int) -> Iterator[None]:
        """Count what is waited for while the block runs, instead of a request in flight.

        Raises:
            PrincipalLimited: it waits for as many as it may.
        """
        self._check("waits", self.waits + count)
        self.waits += count
        self.in_flight -= 1
        try:
            yield
        finally:
            self.waits -= count
            self.in_flight += 1

    @contextmanager
    def asking(self, count: int) -> Iterator[None]:
        """Count requests that are on their way to the record while the block runs.

        Raises:
            PrincipalLimited: with them it would have more open requests than it may.
        """
        self._check("requests_open", self._open_with(count))
        self._asking += count
        try:
            yield
        finally:
            self._asking -= count

    def has_room(self, count: int) -> bool:
        """Tell whether so many more requests may be open, as far as is known without a look."""
        return self._open_with(count) <= self.limits.requests_open

    def looks(self) -> Sequence[str]:
        """Return open requests of which to look whether they have ended; none before it is time.

        Those that are returned come last the next time.
        """
        now_s = self._clock()
        if now_s - self._looked_at_s < LOOK_EVERY_S:
            return ()
        self._looked_at_s = now_s
        ids = list(islice(self.open_ids, LOOK_IDS_MAX))
        for name in ids:
            self.open_ids[name] = self.open_ids.pop(name)
        return ids

    def note_open(self, ids: Collection[str]) -> None:
        """Remember requests that are on the record."""
        self.open_ids |= dict.fromkeys(ids)
        self._grown(len(ids))

    def end(self, ids: Iterable[str]) -> None:
        """Forget requests that have their outcomes."""
        for name in ids:
            self.open_ids.pop(name, None)

    def _open_with(self, count: int) -> int:
        return len(self.open_ids) + self._asking + count

    def _move(self, step: int, *, is_stream: bool) -> None:
        if is_stream:
            self.streams += step
        else:
            self.in_flight += step

    def _check(self, name: str, number: int) -> None:
        most: int = getattr(self.limits, name)
        if number > most:
            self._refuse(name, most)

    def _check_rate(self, name: str) -> None:
        rate = self._rates[name]
        if wait_s := rate.wait_s(self._clock()):
            self._refuse(name, rate.most, wait_s)

    def _refuse(self, name: str, most: int, wait_s: float = 1) -> None:
        self.limited[name] += 1
        raise PrincipalLimited(self.principal, name, most, wait_s)


_current: ContextVar[PrincipalUse | None] = ContextVar("_current", default=None)
"""What the principal uses whose request is carried out."""


@dataclass(frozen=True, slots=True)
class PrincipalCounts:
    """What one principal uses now, and how often it was refused for a limit."""

    principal: str
    in_flight: int
    streams: int
    waits: int
    requests_open: int
    limited: int
    limited_by: str
    """The limit for which it was refused most often; nothing where it was not."""


class PrincipalUses:
    """What every principal uses of this gateway."""

    def __init__(self, limits: PrincipalLimits, clock: Clock) -> None:
        self.limits = limits
        self._forgotten: Counter[str] = Counter()
        """How often those were refused that are not remembered, by limit."""

        self._clock = clock
        self._uses: OrderedDict[str, PrincipalUse] = OrderedDict()
        self._open_ids = 0
        """Of all principals, those included that have ended since."""

    def __len__(self) -> int:
        return len(self._uses)

    def of(self, principal: str) -> PrincipalUse:
        """Return what a principal uses."""
        use = self._uses.pop(principal, None) or PrincipalUse(
            principal, self.limits, self._clock, self._note_grown
        )
        self._uses[principal] = use
        if len(self._uses) > PRINCIPALS_MAX:
            _, forgotten = self._uses.popitem(last=False)
            self._forgotten += forgotten.limited
        return use

    def counts(self, most: int) -> list[PrincipalCounts]:
        """Return what principals use: those that were refused most, then those that use most."""
        counts = [
            PrincipalCounts(
                use.principal,
                use.in_flight,
                use.streams,
                use.waits,
                len(use.open_ids),
                use.limited.total(),
                max(use.limited, key=use.limited.__getitem__, default=""),
            )
            for use in self._uses.values()
        ]
        counts.sort(key=lambda each: (-each.limited, -each.in_flight, -each.requests_open))
        return counts[:most]

    def limited_counts(self) -> Counter[str]:
        """Return how often anybody was refused, by limit."""
        counts = Counter(dict.fromkeys(asdict(self.limits), 0))
        counts.update(self._forgotten)
        for use in self._uses.values():
            counts.update(use.limited)
        return counts

    def _note_grown(self, count: int) -> None:
        """Forget some open requests of who has most where they are too many in all."""
        self._open_ids += count
        if self._open_ids <= OPEN_IDS_MAX:
            return
        self._open_ids = sum(len(each.open_ids) for each in self._uses.values())
        if self._open_ids > OPEN_IDS_MAX:
            largest = max(self._uses.values(), key=lambda each: len(each.open_ids))
            largest.end(list(islice(largest.open_ids, _FORGOTTEN_AT_ONCE)))


def current_use() -> PrincipalUse | None:
    """Return what the principal uses whose request is carried out; None where access is open."""
    return _current.get()
