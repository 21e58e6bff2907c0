"""Holds the hypotheses of a session, and the hash of what a bitmap over them leaves.

The ids are sorted by Unicode code point, which is the order of Python strings (not of UTF-16 code
units), and never change. Hypothesis number i is bit i % 8, counted from the least significant, of
byte i // 8; the bits behind the last id are zero.

    universe hash  = SHA-256(RFC 8785 bytes of the array of sorted ids)
    survivors hash = SHA-256(the 32 bytes of the universe hash + the bitmap)
"""

import hashlib
from collections.abc import Iterable, Sequence

from kernel.belief.id_lists import (
    are_equal,
    canonical_texts,
    let_go,
    sort_unique,
)
from kernel.belief.limits import MAX_HYPOTHESES, check_ids

ID_WEIGHT_BYTES = 180
"""What a hypothesis costs beside its text, in the universe and among the survivors (measured)."""


class Universe:
    """The immutable, sorted hypothesis ids of a session; duplicates collapse.

    Raises:
        BeliefError: INVALID_REQUEST for more than a million ids given, or an id outside 1 to 512
            characters.
    """

    def __init__(self, hypotheses: Iterable[str]) -> None:
        self._ids = _check_universe(hypotheses)
        self.ids: Sequence[str] = self._ids
        """All ids, sorted by code point."""

        self._positions = {name: position for position, name in enumerate(self._ids)}
        content = canonical_texts(self._ids)
        self._text_bytes = len(content)
        self._seed = hashlib.sha256(hashlib.sha256(content).digest())

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def weight_bytes(self) -> int:
        """About how much memory a session needs for its hypotheses."""
        return self._text_bytes + ID_WEIGHT_BYTES * len(self._ids)

    def __contains__(self, hypothesis_id: object) -> bool:
        return hypothesis_id in self._positions

    def is_of(self, hypotheses: Iterable[str]) -> bool:
        """Tell whether a universe of these hypotheses would be the same.

        Raises:
            BeliefError: INVALID_REQUEST where there can be none.
        """
        return are_equal(self._ids, _check_universe(hypotheses))

    def release(self) -> None:
        """Give the memory back in steps; nothing is to be asked of the universe afterwards."""
        while self._positions:
            self._positions.popitem()
        let_go(self._ids)

    @property
    def hash_seed(self) -> "hashlib._Hash":
        """The state of SHA-256 after the universe hash; copy it before use."""
        return self._seed

    @property
    def bitmap_bytes(self) -> int:
        """Length of a bitmap over this universe."""
        return (len(self._ids) + 7) // 8

    def position(self, hypothesis_id: str) -> int | None:
        """Return the index of an id in the sorted order, None for an unknown one."""
        return self._positions.get(hypothesis_id)

    def hash_bitmap(self, bitmap: bytes | bytearray) -> str:
        """Return the survivors hash that a bitmap over this universe has."""
        seeded = self._seed.copy()
        seeded.update(bitmap)
        return seeded.hexdigest()


def _check_universe(hypotheses: Iterable[str]) -> list[str]:
    return sort_unique(check_ids("hypotheses", hypotheses, max_ids=MAX_HYPOTHESES))
