"""Asks who may do what, now or at a sequence of the record."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from kernel.records.access.denials import DENIED
from kernel.records.access.readable_view import ReadableView
from kernel.records.access.records import access_at, access_record
from kernel.values.host import iso_time
from workers.questions.fields import Sequence
from workers.questions.question import Question

DENIALS_MAX = 100


@dataclass(frozen=True, slots=True)
class GrantOfAccess:
    """A role of a principal, of what, and up to which visibility class it reads."""

    principal: str
    role: str
    scope: str
    clearance: str


@dataclass(frozen=True, slots=True)
class KeyOfAccess:
    """A key by its id; nobody knows its secret but who has it."""

    key_id: str
    principal: str
    created_at: str
    expires_at: str
    opened_by: str | None


@dataclass(frozen=True, slots=True)
class DeniedAccess:
    """What a principal asked for and had no right to, between two times; several where null."""

    principal: str | None
    actions: dict[str, int]
    """How often, by action."""

    first_denied_at: str
    last_denied_at: str


@dataclass(frozen=True, slots=True)
class AccessDocument:
    """The grants and the keys that stood; now, the newest denials too."""

    ec_sequence_number: str
    grants: tuple[GrantOfAccess, ...]
    keys: tuple[KeyOfAccess, ...]
    denials: tuple[DeniedAccess, ...] = ()


class GetAccess(Question):
    """Show who was granted what, and which keys stood, now or at a sequence of the record.

    A key that had expired by then is listed until it was revoked or made room for another.
    """

    paths: ClassVar = ("/v1/access",)
    subject: ClassVar = "access"

    to_sequence: Annotated[Sequence | None, Field(description="Last sequence.")] = None

    def answer(self, view: ReadableView) -> AccessDocument:
        """Return what stood."""
        denials: tuple[DeniedAccess, ...] = ()
        if self.to_sequence is None:
            sequence, record = view.head().ec_sequence_number, access_record(view)
            denials = _newest_denials(view)
        else:
            sequence, record = self.to_sequence, access_at(view, self.to_sequence)
        return AccessDocument(
            str(sequence),
            tuple(
                GrantOfAccess(each.principal, each.role, each.scope, each.reads_up_to)
                for each in record.grants
            ),
            tuple(
                KeyOfAccess(
                    key.key_id,
                    key.principal,
                    iso_time(key.created_at_us),
                    iso_time(key.expires_at_us),
                    key.opened_by,
                )
                for key in record.keys
            ),
            denials,
        )

    def summary(self, document: dict[str, list[object]]) -> str:
        """Return how much stood."""
        return f"{len(document['grants'])} grants and {len(document['keys'])} keys"


def _newest_denials(view: ReadableView) -> tuple[DeniedAccess, ...]:
    return tuple(
        DeniedAccess(
            receipt.get("principal"),
            receipt["actions"],
            receipt["first_denied_at"],
            receipt["last_denied_at"],
        )
        for receipt in view.receipts_of_kind(DENIED, limit=DENIALS_MAX)
    )
