"""Names the models in use: all that replay may ask about a model (K16).

Whoever knows of models outside tells the kernel through this port. There is no way from here to a
model: replay is given neither a client nor a network.
"""

from collections.abc import Mapping
from typing import Protocol


class ModelRegistry(Protocol):
    """The versions in use, now."""

    def current_version(self, model_version: str) -> str | None:
        """Return the version that is active for the model of a recorded version.

        None means that the model was retired, or was never registered.
        """


class ActiveModels:
    """A registry in memory."""

    def __init__(self, current_by_version: Mapping[str, str]) -> None:
        """Hold, for each version that may stand on the record, the one that answers today."""
        self._current = dict(current_by_version)

    def current_version(self, model_version: str) -> str | None:
        """Return the active version; see `ModelRegistry`."""
        return self._current.get(model_version)
