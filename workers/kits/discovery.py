"""Finds providers of hypotheses in installed packages, by the entry points of one group.

An entry point names an object that is a `HypothesisProvider`, or something that returns one when
it is called without arguments (a class, a function).
"""

from importlib.metadata import EntryPoint, entry_points

import structlog

from kernel.belief.provider import HypothesisProvider

GROUP = "rotulus.hypotheses"

_log = structlog.get_logger(__name__)


def discover_providers() -> dict[str, HypothesisProvider]:
    """Return the providers of all installed packages by name; one that fails hides no other.

    Whatever does not load or is no provider is left out with a warning in the log.
    """
    found: dict[str, HypothesisProvider] = {}
    for point in entry_points(group=GROUP):
        provider = _loaded(point)
        if provider is None or point.name in found:
            _log.warning("provider_left_out", name=point.name, value=point.value)
        else:
            found[point.name] = provider
    return found


def _loaded(point: EntryPoint) -> HypothesisProvider | None:
    try:
        named = point.load()
        made = (
            named()
            if isinstance(named, type) or not isinstance(named, HypothesisProvider)
            else named
        )
    except Exception as error:  # noqa: BLE001 - whatever another package raises is its own
        _log.warning("provider_failed", name=point.name, error=repr(error))
        return None
    return made if isinstance(made, HypothesisProvider) else None
