"""How much of a fleet there was in a run: silence, takeovers, dead letters, each with its bound."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType

from tests.chaos.fleet import LEASE_S
from tests.chaos.schedule import Fault

SLACK_S = 3.0
"""What silence and a takeover may take beyond a lease."""

TAKEOVERS: Mapping[str, Collection[str]] = MappingProxyType(
    {
        "a kill": ("kill_gateway",),
        "a pause": ("pause_gateway", "pause_writer"),
        "a lost ledger": ("cut_postgres_of_gateway",),
        "a lost Redis": ("cut_redis_of_gateway",),
    }
)
"""What a gateway's shards are taken over after, and the kinds of fault that it is."""


def bounds(
    silence_s: Mapping[str, float],
    takeover_s: Mapping[str, float],
    outcomes: Iterable[tuple[str, str]],
) -> dict[str, dict[str, float]]:
    """Return what was measured of each thing that is bounded, beside its bound.

    Where no shard changed hands after a kind of fault, there is no takeover to be bounded.
    """
    within_s = LEASE_S + SLACK_S
    return {
        "longest silence, s": {"was": max(silence_s.values(), default=0.0), "at most": within_s},
        "dead letters": {
            "was": sum(outcome == "dead_letter" for _, outcome in outcomes),
            "at most": 0,
        },
        **{
            f"takeover after {name}, s": {
                "was": max(takeover_s.get(kind, 0.0) for kind in kinds),
                "at most": within_s,
            }
            for name, kinds in TAKEOVERS.items()
            if takeover_s.keys() & set(kinds)
        },
    }


def takeover_times(
    faults: Sequence[Fault], owners: Iterable[tuple[float, str, str]]
) -> dict[str, float]:
    """Return by kind the longest time from a fault of a gateway until another had a shard of its.

    A shard that stays with the gateway until the next fault was not taken over.

    Args:
        faults: in order.
        owners: when which shard came to which gateway, in order, in seconds of the run.
    """
    longest: dict[str, float] = {}
    owner_of: dict[str, str] = {}
    for at_s, shard, name in owners:
        if not name:  # released
            continue
        before, owner_of[shard] = owner_of.get(shard, ""), name
        fault = next((fault for fault in reversed(faults) if fault.at_s <= at_s), None)
        if fault is not None and fault.target == before != name:
            longest[fault.kind] = max(longest.get(fault.kind, 0.0), round(at_s - fault.at_s, 2))
    return dict(sorted(longest.items(), key=lambda item: -item[1]))


def silences(
    faults: Sequence[Fault], began_s: float, waits_s: Sequence[tuple[float, float]]
) -> dict[str, float]:
    """Return the longest time in which somebody waited and nobody was answered, by kind of fault.

    Args:
        faults: in order, each with its beginning in seconds of the run.
        began_s: when the run began.
        waits_s: when something was asked for, and when it was answered.
    """
    waits = sorted(waits_s, key=lambda wait: wait[1])
    # Of what is answered from some answer on: when the first of it was asked for.
    asked_first = list(accumulate((asked_s for asked_s, _ in reversed(waits)), min))[::-1]
    longest: dict[str, float] = {}
    before_s = began_s
    for (_, answered_s), asked_s in zip(waits, asked_first, strict=True):
        silence_s = answered_s - max(before_s, asked_s)
        last = [fault.kind for fault in faults if began_s + fault.at_s <= answered_s]
        kind = last[-1] if last else "before any"
        longest[kind] = max(longest.get(kind, 0.0), round(silence_s, 2))
        before_s = answered_s
    return dict(sorted(longest.items(), key=lambda item: -item[1]))
