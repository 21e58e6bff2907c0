"""Picks the messages that an actor carries out on a thread (decision actors/0060).

The cost of a message grows with what it names (ids, a justification of a megabyte) and with what
its answer lists. Most messages name a few ids and list a few survivors; a thread would cost them
more than they cost other sessions.
"""

from typing import Any

from actors.messages import Audit, BeliefVerb, Declare, Eliminate, Message, Query, Succeed
from kernel.belief.session import BeliefSession
from kernel.values.json_text import is_longer_than

IDS_MAX = 2_000
"""Ids that an actor reads or lists in less than two milliseconds."""

OPAQUE_CHARS_MAX = 16 << 10
"""Characters of a context, a justification or metadata: four milliseconds for the worst numbers."""


def takes_long(message: Message, belief: BeliefSession | None) -> bool:
    """Tell whether a message is to be carried out on a thread."""
    if isinstance(message, Audit | Succeed):
        # How long its page is nobody knows before, nor how much a successor takes over.
        return True
    if isinstance(message, Declare):
        return len(message.hypotheses) > IDS_MAX or _is_long(message.metadata)
    if isinstance(message, BeliefVerb | Query) and _lists_many(message, belief):
        return True
    if isinstance(message, Eliminate):
        return len(message.eliminated) > IDS_MAX or _is_long(message.justification)
    return _is_long(getattr(message, "context", None))


def _lists_many(message: BeliefVerb | Query, belief: BeliefSession | None) -> bool:
    most = message.survivors_max
    return belief is not None and belief.n_survivors > IDS_MAX and (most is None or most > IDS_MAX)


def _is_long(value: dict[str, Any] | None) -> bool:
    return bool(value) and is_longer_than(value, OPAQUE_CHARS_MAX)
