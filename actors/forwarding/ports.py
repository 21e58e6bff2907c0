"""Declares the mailboxes of shards, as the gateways that send and take use them."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol


class Outbound(Protocol):
    """The mailboxes of shards, as a sender uses them."""

    async def post(self, shard: int, ask_id: str, entry: bytes, owner: str) -> bool:
        """Append an entry to a shard's mailbox and wake its owner; False when there is no room.

        Raises an error with a code when the mailbox cannot be reached.
        """


class MailboxEntryPort(Protocol):
    """An entry of a shard's mailbox."""

    @property
    def mailbox_id(self) -> str:
        """The mailbox in which it stands; a lost mailbox has a successor with another id."""

    @property
    def offset(self) -> str:
        """Its place there; the order of these texts is the order of the entries."""

    @property
    def body(self) -> bytes:
        """The bytes of the forwarded request."""

    @property
    def ends(self) -> int:
        """How many processes have ended while they had it in hand."""

    @property
    def clocks_differ(self) -> bool:
        """Whether its asker's clock is too far from this gateway's."""


class InboxBatchPort(Protocol):
    """The notes that other gateways have sent to this one."""

    @property
    def replies(self) -> Sequence[bytes]:
        """Answers to requests of this gateway."""

    @property
    def mail_for(self) -> Collection[int]:
        """Shards whose mailboxes have new entries."""

    @property
    def leases_changed(self) -> bool:
        """Whether the lease table has changed."""

    @property
    def work_recorded(self) -> bool:
        """Whether another gateway has recorded or closed requests for work."""


class Inbound(Protocol):
    """The mailboxes of shards, read by their owner; None or False when they are unreachable."""

    async def listen(self, timeout_s: float) -> InboxBatchPort | None:
        """Wait for notes, for `timeout_s` at most."""

    async def read(
        self, cursors: Mapping[int, str], limit: int
    ) -> Mapping[int, Sequence[MailboxEntryPort]] | None:
        """Return the entries of shards after the given offsets, "" for the beginning."""

    async def delete(self, offsets: Mapping[int, Collection[str]]) -> bool:
        """Remove entries."""

    async def take(self, offsets: Mapping[int, Collection[str]]) -> bool:
        """Count entries as taken, until they are deleted or given back."""

    async def give_back(self, offsets: Mapping[int, Collection[str]]) -> bool:
        """Lower the count of entries that were not carried out, although no process ended."""

    async def set_aside(self, shard: int, offset: str) -> None:
        """Move an entry where nobody takes it; raises when the mailbox is unreachable."""

    async def reply(self, replies: Mapping[str, Sequence[tuple[str, bytes]]]) -> bool:
        """Send answers by gateway, each with the id of its request; some may be sent at False."""
