"""Decides whether a worker traces; the modules of tracing are loaded only if it does."""

from typing import TYPE_CHECKING

from workers.environment.settings import Settings

if TYPE_CHECKING:
    from workers.worker.item_spans import WorkerTraces


def worker_traces(settings: Settings) -> "WorkerTraces | None":
    """Return the traces of a worker, None where it has none."""
    if settings.traces_url is None:
        return None
    from workers.telemetry.span_exporter import open_spans  # noqa: PLC0415 - see above
    from workers.worker.item_spans import WorkerTraces  # noqa: PLC0415

    return WorkerTraces(open_spans(settings.traces_url, "worker", settings.traces_sample))
