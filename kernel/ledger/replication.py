"""Reads a server's standbys, and whether a COMMIT waits for one of them."""

from dataclasses import dataclass

IN_STEP = ("sync", "quorum")
"""The states of a standby that a COMMIT may have waited for."""

NO_WAITING = ("local", "off")
"""The values of `synchronous_commit` under which a COMMIT waits for no standby."""


@dataclass(frozen=True, slots=True)
class Standby:
    """One server that streams from the primary; None is what the role may not see."""

    name: str | None
    sync_state: str | None
    behind_bytes: int | None
    """What the primary has written and this one has not on its disk."""


@dataclass(frozen=True, slots=True)
class Replication:
    """What the server says of its standbys to the role that asks."""

    in_recovery: bool
    """Whether the server is a standby itself."""

    standby_names: str
    """`synchronous_standby_names`: the standbys that a COMMIT waits for."""

    commit: str
    """`synchronous_commit`, as the role has it."""

    role: str
    may_see: bool
    """Whether the role may see what is said of each standby."""

    standbys: tuple[Standby, ...]

    @property
    def waits(self) -> bool:
        """Whether a COMMIT waits for a standby."""
        return bool(self.standby_names.strip()) and self.commit not in NO_WAITING

    @property
    def asynchronous(self) -> tuple[Standby, ...]:
        """The standbys that may lack what was answered."""
        if not self.waits:
            return self.standbys
        return tuple(
            each
            for each in self.standbys
            if each.sync_state is not None and each.sync_state not in IN_STEP
        )
