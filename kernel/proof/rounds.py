"""Chains rounds: what closed while each was open (seed 002, Interaction with rounds); pure.

A round begins with its genesis, which names the seal of the round before and embeds the roots that
that one holds. It ends with its seal, which names its genesis and holds the root of every session
that was finalized in it, in the order of their seals on the log. So the seal of the newest round
commits to every session of every round before it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kernel.proof.seals import ROUND_GENESIS, ROUND_SEAL, seal_hash
from kernel.values.canonical import GENESIS_HASH

Document = dict[str, Any]


def round_genesis(before: Mapping[str, Any] | None, opened_at: str) -> Document:
    """Return the genesis of the round behind a sealed one, of the first where there is none."""
    return {
        "format": ROUND_GENESIS,
        "round_number": 1 if before is None else before["round_number"] + 1,
        "parent_seal_hash": GENESIS_HASH if before is None else seal_hash(before),
        "parents": [] if before is None else before["sessions"],
        "opened_at": opened_at,
    }


def round_seal(
    genesis: Mapping[str, Any],
    sessions: Sequence[Mapping[str, Any]],
    sealed_at: str,
    sealed_by: str,
) -> Document:
    """Return the seal of a round, which its signers sign."""
    return {
        "format": ROUND_SEAL,
        "round_number": genesis["round_number"],
        "genesis_hash": seal_hash(genesis),
        "sessions": [*sessions],
        "sealed_at": sealed_at,
        "sealed_by": sealed_by,
    }
