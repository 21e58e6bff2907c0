"""Picks the messages that an actor carries out on a thread (decision actors/0060).

The cost of a message grows with what it names (ids, a justification of a megabyte) and with what
its answer lists. Most messages name a few ids and list a few survivors; a thread would cost them
more than they cost other sessions.
"""

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
        ids, opaque = len(message.hypotheses), message.metadata
    elif isinstance(message, Eliminate):
        ids, opaque = len(message.eliminated), message.justification
    else:
        ids, opaque = 0, getattr(message, "context", None)
    if isinstance(message, BeliefVerb | Query) and belief is not None:
        most = message.survivors_max
        ids = max(ids, belief.n_survivors if most is None else min(most, belief.n_survivors))
    return ids > IDS_MAX or (bool(opaque) and is_longer_than(opaque, OPAQUE_CHARS_MAX))
