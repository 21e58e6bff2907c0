"""Describes damage that a reader met: which record it is, and what is on the record yet (L3).

Every error that says that something stored is not what was written has one of the codes of
`DAMAGE_CODES`, whoever raises it. A ledger notes each one that leaves a snapshot or a transaction
of it (`Ledger.view`), a door each one that it answers with; both note it in the same place, from
which it is written down, counted and told. Damage to a row states its table and key; of anything
else the message is the name.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

DAMAGE_CODES: Final = frozenset(
    {
        "record_damaged",
        "landscape_record_damaged",
        "ledger_corrupt",
        "ledger_file_damaged",
        "belief_event_corrupt",
        "session_corrupt",
        "archive_segment_damaged",
        "archived_content_damaged",
        "rebuild_record_damaged",
        "rollback_pre_image_corrupt",
        "replay_differs",
    }
)
"""Codes that say that a record of ours is damaged; `actors/error_codes.py` has what each means."""

DAMAGE_MAX: Final = 100
"""Damaged records that a process keeps in mind; of more, the first ones."""

TEXT_CHARS_MAX: Final = 300


@dataclass(frozen=True, slots=True)
class Damage:
    """A damaged record, by the table and the key where they are known."""

    code: str
    table: str
    key: str
    message: str

    def __str__(self) -> str:
        """Return the record and what is wrong with it in a line."""
        return f"{self.code}: {self.message}"


def damage_of(error: BaseException) -> Damage | None:
    """Return the damage that an error tells of, None where it tells of none."""
    if isinstance(error, BaseExceptionGroup):
        damages = (damage_of(each) for each in error.exceptions)
        return next((each for each in damages if each is not None), None)
    code = getattr(error, "code", None)
    if code not in DAMAGE_CODES:
        return None
    message = str(error)[:TEXT_CHARS_MAX]
    # A row that is named is one damage, whatever else is said of it.
    table, key = str(getattr(error, "table", "")), str(getattr(error, "key", ""))
    # Of what has no row the message is the name.
    return Damage(code, table or code, key or message, message)


class DamageFound:
    """Damage that was met and is not on the record; for any thread, a limited number of records."""

    def __init__(self) -> None:
        self.told: Callable[[Damage], None] = lambda _: None
        """Told of each damage once, on the thread that met it; a process logs it."""

        self._lock = threading.Lock()
        self._found: dict[tuple[str, str], Damage] = {}

    def note(self, error: BaseException) -> Damage | None:
        """Note the damage that an error tells of; return it where it is not noted already."""
        damage = damage_of(error)
        return damage if damage is not None and self.add(damage) else None

    def add(self, damage: Damage) -> bool:
        """Note a damage; tell whether it is not noted already."""
        place = (damage.table, damage.key)
        with self._lock:
            if place in self._found or len(self._found) >= DAMAGE_MAX:
                return False
            self._found[place] = damage
        self.told(damage)
        return True

    def all(self) -> tuple[Damage, ...]:
        """Return what is noted, in the order in which it was met."""
        with self._lock:
            return tuple(self._found.values())

    def forget(self, recorded: Sequence[Damage]) -> None:
        """Drop what is on the record by now."""
        with self._lock:
            for damage in recorded:
                self._found.pop((damage.table, damage.key), None)
