"""Keeps the metrics of one process: observed histograms, and numbers read on a scrape."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector, generate_latest
from prometheus_client import disable_created_metrics as _disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from kernel.model.rules_version import RULES_VERSION
from kernel.values.fleet_protocol import PROTOCOL
from workers.telemetry.metric_table import Metric

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

Readings = Mapping[str, Mapping[tuple[str, ...], float]]
"""The value for each choice of labels, by metric."""

_BUILD_INFO: Readings = {
    "rotulus_build_info": {(version("rotulus"), str(PROTOCOL), str(RULES_VERSION)): 1}
}

# Else each histogram would come with a second metric that is in no table.
_disable_created_metrics()  # type: ignore[no-untyped-call]  # the library does not say


class Metrics(Collector):
    """The metrics of one process: the rows of its table and no others."""

    def __init__(self, table: Sequence[Metric], read: Callable[[], Readings]) -> None:
        self._read_rows = [metric for metric in table if not metric.buckets]
        self._read = read
        self._registry = CollectorRegistry()
        self._histograms = {
            metric.name: Histogram(
                metric.name,
                metric.meaning,
                metric.labels,
                buckets=metric.buckets,
                registry=self._registry,
            )
            for metric in table
            if metric.buckets
        }
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def observe(self, name: str, value: float, *labels: str) -> None:
        """Count a value into a histogram."""
        self.observe_all(name, (value,), *labels)

    def observe_all(self, name: str, values: Iterable[float], *labels: str) -> None:
        """Count values into a histogram, which is looked up once."""
        histogram = self._histograms[name]
        labelled = histogram.labels(*labels) if labels else histogram
        for value in values:
            labelled.observe(value)

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Yield what is read; the library's part of `text`."""
        readings = {**self._read(), **_BUILD_INFO}
        for row in self._read_rows:
            kind = CounterMetricFamily if row.kind == "counter" else GaugeMetricFamily
            family = kind(row.name, row.meaning, labels=row.labels)
            for labels, value in readings.pop(row.name, {}).items():
                family.add_metric(labels, value)
            yield family
        if readings:
            raise LookupError(f"in no table of metrics: {', '.join(sorted(readings))}")

    def text(self) -> bytes:
        """Return everything in the format of `CONTENT_TYPE`."""
        return generate_latest(self._registry)
