"""What `/metrics` answered, read by the client library's own parser."""

from prometheus_client.parser import text_string_to_metric_families

from workers.telemetry.metric_table import Metric


class Scraped:
    """The samples of one answer, by name and labels."""

    def __init__(self, text: str) -> None:
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self.values = {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float:
        return self.values[name, tuple(sorted(labels.items()))]

    def total(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that have these labels, whatever others they have."""
        wanted = labels.items()
        return sum(
            value
            for (sample, stated), value in self.values.items()
            if sample == name and wanted <= dict(stated).items()
        )

    def labels(self, name: str) -> list[dict[str, str]]:
        return [sample.labels for sample in self.families[name.removesuffix("_total")].samples]

    def counters(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        """Everything that can only grow."""
        return {
            sample: value
            for sample, value in self.values.items()
            if sample[0].endswith(("_total", "_count", "_bucket"))
        }

    def described(self) -> set[tuple[str, str]]:
        """Name and kind of every metric of ours; the parser leaves a counter's ending out."""
        return {
            (f"{name}_total" if family.type == "counter" else name, family.type)
            for name, family in self.families.items()
            if name.startswith("rotulus_")
        }


def declared(table: tuple[Metric, ...]) -> set[tuple[str, str]]:
    return {(metric.name, metric.kind) for metric in table}
