"""Puts together what publishes the log of a gateway, as its settings say."""

from collections.abc import Awaitable, Callable

from kernel.ledger.ledger import Ledger
from workers.environment.known_logs import policy_at
from workers.environment.settings import Settings
from workers.publication.log_publication import LogPublisher
from workers.publication.log_publishing import LogPublishing
from workers.publication.witnesses import WitnessClient


def publishing_of(
    settings: Settings,
    ledger: Ledger,
    clock_s: Callable[[], float],
    seal: Callable[[], Awaitable[object]],
) -> LogPublishing:
    """Return what publishes the log where the settings name a key, and reads it in any case.

    `seal` puts receipts under the tree before a checkpoint is signed.

    Raises:
        PolicyInvalid: the file of the witnesses is no policy, or cannot be read.
    """
    policy = policy_at(settings.witness_policy)
    folder, key_file = settings.published_folder, settings.checkpoint_key
    publisher = None
    if key_file is not None:
        publisher = LogPublisher(ledger.read, key_file, folder, WitnessClient(policy))
    return LogPublishing(
        ledger,
        folder,
        policy=policy,
        key_file=key_file,
        publisher=publisher,
        every_s=settings.checkpoint_s,
        rows=settings.checkpoint_rows,
        clock_s=clock_s,
        seal=seal,
    )
