"""Holds the shards that this process owns now, and their epochs.

This is what the process believes, and it may be wrong: the committer asks the ledger inside every
transaction, and before every answer that needs none.
"""

from collections.abc import Callable, Iterable

from actors.errors import ShardUnowned
from actors.sharding.assignment import shard_of
from kernel.ledger.shards import Fence


class SessionLease:
    """What one gateway of a ledger does at a time: the owner of the shard of a session."""

    def __init__(self, held_shards: "HeldShards", session_id: str) -> None:
        self._held_shards = held_shards
        self.shard = shard_of(session_id, held_shards.shards)

    @property
    def fence(self) -> Fence | None:
        """The fence under which this process does it, None where another does."""
        return self._held_shards.fence_of(self.shard)

    def lose(self, fence: Fence) -> None:
        """Take note that a fence is stale."""
        self._held_shards.lose(fence)


class HeldShards:
    """The shards of this process; `lost` is called when one turns out to have another owner."""

    def __init__(self, shards: int, *, lost: Callable[[int], None] = lambda _: None) -> None:
        self.shards = shards
        """The number of shards of the ledger."""

        self.name_taken = False
        """Whether another process goes by this gateway's name, so that this one owns nothing."""

        self._lost = lost
        self._held: dict[int, Fence] = {}

    @property
    def held(self) -> dict[int, Fence]:
        """The fences that are held, by shard."""
        return dict(self._held)

    def fence_of(self, shard: int) -> Fence | None:
        """Return the fence of a shard, None where it is not held."""
        return self._held.get(shard)

    def fence_for(self, session_id: str) -> Fence:
        """Return the fence under which a session's work is written.

        Raises:
            ShardUnowned: when its shard is not held here.
        """
        shard = shard_of(session_id, self.shards)
        fence = self._held.get(shard)
        if fence is None:
            raise ShardUnowned("this gateway does not own the session", {"shard": shard})
        return fence

    def add(self, fences: Iterable[Fence]) -> None:
        """Hold shards from now on."""
        self._held |= {fence.shard: fence for fence in fences}

    def drop(self, shard: int) -> Fence | None:
        """Stop holding a shard; its sessions are not served here from now on."""
        return self._held.pop(shard, None)

    def lose(self, fence: Fence) -> None:
        """Take note that a fence is stale."""
        if self._held.get(fence.shard) == fence:
            del self._held[fence.shard]
            self._lost(fence.shard)
