"""Defines what charts measure, and packs the samples of a stretch of time into bytes.

A sample is a number that is not negative, or `GAP`, where nobody counted: a gap is never drawn as
zero. Their measure says what several samples come to, so a minute follows from its seconds as a
point of a chart does. The bytes are the program's own; those that it cannot read are a gap.
"""

import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

import orjson

from kernel.ledger.chart_blocks import ChartResolution

GAP: Final = -1

SERIES_MAX: Final = 512
"""Series of one block; a queue beyond them has no charts."""

BYTES_MAX: Final = 1 << 20
_LEVEL: Final = 1
_VALUE_BYTES: Final = 8
_VALUE_MAX: Final = 2**63 - 1


class Measure(NamedTuple):
    """What is counted, and what several samples of it come to."""

    title: str
    unit: Literal["count", "ms", "us"]
    comes_to: Literal["highest", "sum", "mean"]
    of_queue: bool = True
    """Whether it is counted of each queue, or of the ledger."""


MEASURES: Final[Mapping[str, Measure]] = MappingProxyType(
    {
        "ready": Measure("Ready to be claimed", "count", "highest"),
        "open": Measure("Open requests", "count", "highest"),
        "age": Measure("Age of what is served next", "ms", "highest"),
        "done": Measure("Done", "count", "sum"),
        "failed": Measure("Failed for good", "count", "sum"),
        "commits": Measure("Commits", "count", "sum", of_queue=False),
        "commit_median": Measure("Median time of a commit", "us", "mean", of_queue=False),
        "commit_p95": Measure("95th percentile of commits", "us", "highest", of_queue=False),
    }
)

Series = tuple[str, str]
"""A measure, and the queue of which it is counted; "" of the ledger."""


def combine(measure: str, samples: Iterable[int]) -> int:
    """Return what samples of a measure come to; gaps count for nothing, and come to a gap alone."""
    known = [sample for sample in samples if sample != GAP]
    if not known:
        return GAP
    match MEASURES[measure].comes_to:
        case "highest":
            return max(known)
        case "sum":
            return sum(known)
        case "mean":
            return round(sum(known) / len(known))


@dataclass(slots=True)
class SampleBlock:
    """The samples of a stretch of time, as many for each series."""

    resolution: ChartResolution
    began_s: int
    running_since_s: int = 0
    """When the gateway began that counted them."""

    version: str = ""
    """The program's."""

    series: dict[Series, list[int]] = field(default_factory=dict)

    def put(self, time_s: int, values: Mapping[Series, int]) -> None:
        """Set the samples of a time, which lies in the block."""
        index = (time_s - self.began_s) // self.resolution.sample_s
        for key, value in values.items():
            samples = self.series.get(key)
            if samples is None:
                if len(self.series) >= SERIES_MAX:
                    continue
                samples = self.series[key] = [GAP] * self.resolution.samples
            samples[index] = min(value, _VALUE_MAX)

    def to_bytes(self) -> bytes:
        """Return it as bytes."""
        head = {
            "running_since_s": self.running_since_s,
            "version": self.version,
            "series": list(self.series),
        }
        values = [value for samples in self.series.values() for value in samples]
        body = orjson.dumps(head) + b"\n" + struct.pack(f"<{len(values)}q", *values)
        return zlib.compress(body, _LEVEL)


class PackedBlock:
    """A block as it was read; of its series those are unpacked that somebody asks for."""

    def __init__(self, resolution: ChartResolution, began_s: int, packed: bytes) -> None:
        self.resolution = resolution
        self.began_s = began_s
        self.running_since_s, self.version = 0, ""
        self._body = b""
        self._places: dict[Series, int] = {}
        try:
            self._read(packed)
        except (zlib.error, ValueError, KeyError, TypeError):
            self._places = {}

    def _read(self, packed: bytes) -> None:
        self._body = zlib.decompressobj().decompress(packed, BYTES_MAX)
        head_bytes = self._body.index(b"\n")
        head: Any = orjson.loads(self._body[:head_bytes])
        size = _VALUE_BYTES * self.resolution.samples
        first = head_bytes + 1
        places = {
            (str(measure), str(queue)): first + number * size
            for number, (measure, queue) in enumerate(head["series"])
        }
        if len(self._body) != first + len(places) * size:
            raise ValueError("a block has fewer samples than its series")
        self.running_since_s, self.version = int(head["running_since_s"]), str(head["version"])
        self._places = places

    @property
    def series(self) -> Iterable[Series]:
        """The series that it has."""
        return self._places

    def samples(self, series: Series) -> Sequence[int]:
        """Return the samples of a series that it has."""
        count = self.resolution.samples
        return struct.unpack_from(f"<{count}q", self._body, self._places[series])

    def to_block(self) -> SampleBlock:
        """Return it for a writer to go on with."""
        series = {key: list(self.samples(key)) for key in self._places}
        return SampleBlock(
            self.resolution, self.began_s, self.running_since_s, self.version, series
        )
