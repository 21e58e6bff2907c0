"""Finds providers of hypotheses in installed packages, by the entry points of one group.

An entry point names an object that is a `HypothesisProvider`, or something that returns one when
it is called without arguments (a class, a function).
"""

from importlib.metadata import EntryPoint, entry_points

import structlog

from kernel.belief.provider import HypothesisProvider
from kernel.values.foreign_code import call_foreign, cause_of

GROUP = "rotulus.hypotheses"

_log = structlog.get_logger(__name__)


def discover_providers() -> dict[str, HypothesisProvider]:
    """Return the providers of all installed packages by name; one that fails hides no other.

    Whatever does not load or is no provider is left out with a warning in the log.
    """
    providers: dict[str, HypothesisProvider] = {}
    for point in entry_points(group=GROUP):
        provider = _load_provider(point)
        if provider is None or point.name in providers:
            _log.warning("provider_left_out", name=point.name, value=point.value)
        else:
            providers[point.name] = provider
    return providers


def _load_provider(point: EntryPoint) -> HypothesisProvider | None:
    try:
        return call_foreign(_provider_at, point)
    except Exception as error:  # noqa: BLE001 - whatever another package raises is its own
        _log.warning("provider_failed", name=point.name, error=repr(cause_of(error)))
        return None


def _provider_at(point: EntryPoint) -> HypothesisProvider | None:
    loaded = point.load()
    if isinstance(loaded, type) or not isinstance(loaded, HypothesisProvider):
        loaded = loaded()
    return loaded if isinstance(loaded, HypothesisProvider) else None
