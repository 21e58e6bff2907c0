"""Resolves the restriction that the overlays over one thing give (INV-B2-OVERLAY-RESOLUTION-1, K9).

1. Only the overlays of the most specific granularity that is there count.
2. Among them each must permit: a limit is never lifted by its neighbour.
3. Two different limits among them are `blocked`, unless one is: nothing else is stricter than the
   other in every respect.

The order in which overlays are found does not matter.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kernel.records.overlays.overlay import GRANULARITIES, AccessOverlay, Granularity, Restriction

_RANK = {name: rank for rank, name in enumerate(GRANULARITIES)}

SHARE_LINK_SESSION = "share_link_session"


@dataclass(frozen=True, slots=True)
class Writer:
    """Who writes, as far as an overlay asks."""

    identity: str | None
    """Whom a grant has to name, None where no grant applies."""

    session_kind: str | None = None


@dataclass(frozen=True, slots=True)
class Resolution:
    """The restriction that holds, and the overlays that make it so."""

    granularity: Granularity
    restriction: Restriction
    overlays: tuple[AccessOverlay, ...]
    """The limiting overlays of this granularity, by id; all of them where none limits."""

    def permits(self, write_ref: str, writer: Writer, granted: frozenset[str]) -> bool:
        """Tell whether a write is permitted; `granted` are those whom the written node lets in."""
        if self.restriction == "none":
            return True
        if self.restriction == "not_shareable":
            return writer.session_kind != SHARE_LINK_SESSION
        if self.restriction == "explicit_access_required":
            return all(writer.identity in overlay.grants | granted for overlay in self.overlays)
        if self.restriction == "redacted_only":
            return all(overlay.redacted_ref == write_ref for overlay in self.overlays)
        return False

    @property
    def overlay_ids(self) -> tuple[str, ...]:
        """The ids of the overlays that decide."""
        return tuple(overlay.overlay_id for overlay in self.overlays)

    def describe(self) -> str:
        """Return what holds and why, for a refusal's message (§12.2)."""
        overlay_ids = ", ".join(self.overlay_ids[:8])
        return f"{self.restriction} by overlay {overlay_ids} (granularity: {self.granularity})"


def resolve(overlays: Iterable[AccessOverlay]) -> Resolution | None:
    """Return the restriction of the overlays that apply to one thing, None where none does."""
    by_id = {overlay.overlay_id: overlay for overlay in overlays}
    if not by_id:
        return None
    granularity = min((overlay.granularity for overlay in by_id.values()), key=_RANK.__getitem__)
    decisive = [by_id[key] for key in sorted(by_id) if by_id[key].granularity == granularity]
    limiting = [overlay for overlay in decisive if overlay.restriction != "none"]
    return Resolution(granularity, _strictest(limiting), tuple(limiting or decisive))


def _strictest(limiting: list[AccessOverlay]) -> Restriction:
    stated = {overlay.restriction for overlay in limiting}
    if len(stated) > 1:
        return "blocked"
    return next(iter(stated), "none")
