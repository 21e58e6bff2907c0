"""Defines the errors of queues, named for what the caller does next."""

from typing import Final


class QueueError(Exception):
    """A queue refused a request or could not be reached.

    Codes:
        queue_unknown_priority: the priority is not in the table.
        queue_item_too_large: a payload, key or cause id is over its limit.
        queue_batch_too_large: more items in one call than a script may handle.
        queue_argument_invalid: a name, key, duration or limit is outside its range.
        lease_too_large: a lease asks for more than its priority can ever be given.
        queue_mark_differs: Redis was lost, or another relay serves the queue; nothing was added.
        queue_unavailable: Redis cannot be reached; try again later.
        queue_refused: Redis answers with an error, and goes on so until somebody mends it.
        mail_key_missing: the gateways that live have not given this one the key of their mail yet.
        redis_of_another_ledger: the keys of this prefix are another ledger's.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


REDIS_FAILED: Final = frozenset({"queue_unavailable", "queue_refused"})
"""The codes of a Redis that does not serve; what is on the record follows once it does."""


class EmbeddedServerError(Exception):
    """The embedded server cannot be provided.

    Codes:
        redis_unavailable: no server binary was found.
        redis_data_in_use: another process runs a server on this data folder.
        redis_start_failed: the server ended or did not answer in time.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
