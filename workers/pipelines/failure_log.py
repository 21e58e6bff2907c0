"""Says in the log where nodes of a pipeline fail; the record has every failure, without its place.

A node that fails for one row fails for many, so each kind of error of a node is said once.
"""

from typing import Final

import structlog

from kernel.values.foreign_code import cause_of, message_of, traceback_of
from workers.pipelines.engine.step import RowRefused

KINDS_MAX: Final = 100
"""Kinds of failures that one process says."""

_log = structlog.get_logger(__name__)


class FailureLog:
    """The failures of nodes that this process has said."""

    def __init__(self) -> None:
        self._known: set[tuple[str, type]] = set()

    def note(self, node: str, error: Exception) -> None:
        """Say where a node failed, if it is the first time that it does so."""
        if isinstance(error, RowRefused):  # says all that there is to say
            return
        cause = cause_of(error)
        kind = (node, type(cause))
        if kind in self._known or len(self._known) >= KINDS_MAX:
            return
        self._known.add(kind)
        _log.warning(
            "node_failed",
            node=node,
            error=f"{type(cause).__name__}: {message_of(cause)}",
            exception=traceback_of(error),
        )
