"""Marks the surviving hypotheses of a session, one bit each over its universe.

A cleared bit is set again only to take back a strike whose event could not be made. Striking k ids
costs k look-ups. The hash afterwards costs a pass over the bitmap from the first byte that changed:
the state of SHA-256 is kept at every 16 KiB before it (decision kernel/0164).
"""

import re
from collections.abc import Iterable
from itertools import compress
from typing import Self

from kernel.belief.id_lists import STEP_IDS
from kernel.belief.universe import Universe

HASH_BLOCK_BYTES = 16 * 1024
_STEP_BYTES = 2 * 1024
"""Bytes of a bitmap whose ids are listed in one call."""

# For each value of a byte, its eight bits as eight bytes of 0 or 1.
_BITS = [bytes(value >> bit & 1 for bit in range(8)) for value in range(256)]

_SOME_SURVIVE = re.compile(rb"[^\x00]").finditer
"""The bytes of a bitmap in which there is a survivor."""


class Survivors:
    """The bitmap of what is left of a universe; a new one holds everything."""

    def __init__(self, universe: Universe) -> None:
        size = len(universe)
        self._universe = universe
        self._bitmap = bytearray(b"\xff" * universe.bitmap_bytes)
        if size % 8:
            self._bitmap[-1] = (1 << size % 8) - 1
        self._count = size
        self._states = [universe.hash_seed]
        """The state of SHA-256 before each block of the bitmap, as far as it is valid."""

    @classmethod
    def of_bitmap(cls, universe: Universe, bitmap: bytes) -> Self:
        """Return what a bitmap over a universe leaves."""
        survivors = cls(universe)
        survivors._bitmap = bytearray(bitmap)
        survivors._count = int.from_bytes(bitmap).bit_count()
        return survivors

    def __len__(self) -> int:
        return self._count

    def __contains__(self, hypothesis_id: str) -> bool:
        position = self._universe.position(hypothesis_id)
        return position is not None and bool(self._bitmap[position >> 3] >> (position & 7) & 1)

    @property
    def bitmap(self) -> bytes:
        """A copy of the bits."""
        return bytes(self._bitmap)

    def strike(self, ids: Iterable[str]) -> list[str]:
        """Remove the ids that survive and return them sorted; others change nothing."""
        positions, bitmap = self._universe.position, self._bitmap
        applied = []
        for name in ids:
            position = positions(name)
            if position is None:
                continue
            mask = 1 << (position & 7)
            if bitmap[position >> 3] & mask:
                bitmap[position >> 3] ^= mask
                applied.append(name)
        self._forget_hash_from(applied)
        self._count -= len(applied)
        return sorted(applied) if len(applied) <= STEP_IDS else self._in_order(applied)

    def _in_order(self, ids: list[str]) -> list[str]:
        """Sort many ids of the universe, which has them sorted."""
        bits = bytearray(len(self._bitmap))
        for position in map(self._universe.position, ids):
            if position is not None:
                bits[position >> 3] |= 1 << (position & 7)
        return self._ids_of(bits)

    def take_back(self, struck: Iterable[str]) -> None:
        """Let ids survive again that `strike` returned, because their event could not be made."""
        back = list(struck)
        for name in back:
            position = self._universe.position(name)
            if position is not None:
                self._bitmap[position >> 3] |= 1 << (position & 7)
        self._forget_hash_from(back)
        self._count += len(back)

    def _forget_hash_from(self, ids: list[str]) -> None:
        """Forget the hash from the first block on that these ids are in."""
        if len(self._states) > 1:
            positions = map(self._universe.position, ids)
            first = min((position for position in positions if position is not None), default=None)
            if first is not None:
                del self._states[(first >> 3) // HASH_BLOCK_BYTES + 1 :]

    def hash(self) -> str:
        """Return the survivors hash."""
        bits, states = memoryview(self._bitmap), self._states
        state = states[-1].copy()
        for start in range((len(states) - 1) * HASH_BLOCK_BYTES, len(bits), HASH_BLOCK_BYTES):
            end = start + HASH_BLOCK_BYTES
            state.update(bits[start:end])
            if end < len(bits):
                states.append(state.copy())
        return state.hexdigest()

    def ids(self) -> list[str]:
        """List what is left, sorted by code point."""
        return self._ids_of(self._bitmap)

    def _ids_of(self, bitmap: bytearray) -> list[str]:
        ids, listed = self._universe.ids, list[str]()
        for start in range(0, len(bitmap), _STEP_BYTES):
            bits = b"".join(map(_BITS.__getitem__, bitmap[start : start + _STEP_BYTES]))
            listed.extend(compress(ids[8 * start : 8 * start + len(bits)], bits))
        return listed

    def first(self, limit: int) -> list[str]:
        """List the first few of what is left, in the same order."""
        if limit > STEP_IDS:
            return self.ids()[:limit]
        ids, listed = self._universe.ids, list[str]()
        for match in _SOME_SURVIVE(self._bitmap):
            if len(listed) >= limit:
                break
            first = 8 * match.start()
            listed.extend(compress(ids[first : first + 8], _BITS[self._bitmap[match.start()]]))
        return listed[:limit]
