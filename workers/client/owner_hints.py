"""Remembers which gateway owns which session, as gateways say it in their answers.

A gateway that does not own a session forwards what it is asked, and names the owner's URL in the
header `Rotulus-Owner`, where that gateway advertises one. A hint is followed only to a URL in the
table of gateways with which a configured gateway has answered, and never from `https` to `http`:
what a client sends is content of a case, and goes to nobody else (decision queues/0069).
"""

from collections.abc import Collection
from typing import Final

HEADER: Final = "Rotulus-Owner"
TABLE_AGE_S: Final = 10.0
"""How long the table is not asked for again, however many hints are not in it."""

SESSIONS_MAX: Final = 10_000
"""Sessions whose owners are kept; beyond that all are forgotten and learned again."""

_PREFIX: Final = "/v1/sessions/"


class OwnerHints:
    """The owners of sessions that one client has learned of."""

    def __init__(self) -> None:
        self._table: frozenset[str] = frozenset()
        self._asked_at_s = float("-inf")
        self._owners: dict[str, str] = {}

    def place(self, path: str) -> str:
        """Return the URL to ask: the owner's where it is known, else the path alone."""
        owner = self._owners.get(_session_in(path))
        return path if owner is None else owner.rstrip("/") + path

    def forget(self, path: str) -> None:
        """Ask for this session at the configured gateway again."""
        self._owners.pop(_session_in(path), None)

    def is_new(self, hint: str, now_s: float) -> bool:
        """Tell whether the table is to be asked for because of a hint; once in a while it is."""
        if hint in self._table or now_s - self._asked_at_s < TABLE_AGE_S:
            return False
        self._asked_at_s = now_s
        return True

    def use_table(self, urls: Collection[str]) -> None:
        """Take the URLs with which a configured gateway has answered, in place of those before."""
        self._table = frozenset(urls)
        self._owners = {session: url for session, url in self._owners.items() if url in self._table}

    def learn(self, path: str, hint: str) -> None:
        """Ask the owner from now on, where the table has it."""
        session = _session_in(path)
        if not session or hint not in self._table:
            return
        if len(self._owners) >= SESSIONS_MAX:
            self._owners.clear()
        self._owners[session] = hint


def _session_in(path: str) -> str:
    if not path.startswith(_PREFIX):
        return ""
    return path[len(_PREFIX) :].partition("/")[0]
