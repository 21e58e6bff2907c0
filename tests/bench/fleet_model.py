"""The model of what a fleet costs: work for each request, for each commit, and for being there.

CPU time of a part = requests x work + commits x commit + processes x seconds x idle. The first two
come from two loads of one size, of which one has few requests in a commit and the other many; of
a kind that was loaded in one way alone, a commit costs nothing apart.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PARTS = ("gateways", "workers", "redis", "database")

Idle = Mapping[str, float]
"""Seconds of CPU time a second, by part."""


@dataclass(frozen=True, slots=True)
class Use:
    """What requests of a kind used."""

    kind: str
    requests: int
    seconds: float
    commits: int
    cpu_s: Mapping[str, float]

    @property
    def rate(self) -> float:
        """Requests a second."""
        return self.requests / self.seconds

    @property
    def cores(self) -> float:
        """How many processors all parts had together."""
        return sum(self.cpu_s.values()) / self.seconds

    def each_us(self, part: str) -> float:
        """Return the CPU time of a part for a request."""
        return self.cpu_s[part] / self.requests * 1e6


@dataclass(frozen=True, slots=True)
class Model:
    """Seconds by part: of a request, of a commit, and of a process in each second."""

    work_s: Mapping[str, float]
    commit_s: Mapping[str, float]
    idle_s: Mapping[str, float]

    def cpu_s(self, part: str, use: Use, size: int) -> float:
        """Return what a part uses for requests, in so many commits, with so many processes."""
        return (
            use.requests * self.work_s[part]
            + use.commits * self.commit_s[part]
            + size * use.seconds * self.idle_s[part]
        )

    def __str__(self) -> str:
        return "; ".join(
            f"{part} {self.work_s[part] * 1e6:.0f} us + {self.commit_s[part] * 1e6:.0f} us a commit"
            f" + {self.idle_s[part] * 1000:.1f} ms/s a process"
            for part in PARTS
        )


def fit(uses: Sequence[Use], idle: Idle, size: int) -> Model:
    """Return the model that says of these loads, and of idling, what was measured."""
    idle_s = {part: idle[part] / size for part in PARTS}
    work_s, commit_s = {}, {}
    for part in PARTS:
        each_s = [(use.cpu_s[part] - use.seconds * idle[part]) / use.requests for use in uses]
        shares = [use.commits / use.requests for use in uses]
        if len(uses) == 1 or shares[0] == shares[-1]:
            work_s[part], commit_s[part] = max(0.0, each_s[-1]), 0.0
            continue
        slope = max(0.0, (each_s[0] - each_s[-1]) / (shares[0] - shares[-1]))
        commit_s[part] = min(slope, max(0.0, each_s[-1]) / shares[-1])
        work_s[part] = max(0.0, each_s[-1] - commit_s[part] * shares[-1])
    return Model(work_s, commit_s, idle_s)
