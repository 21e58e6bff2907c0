"""Describes the result of a replay without receipts: its counts, and what went wrong in it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kernel.replay.judgement import ReplayVerdict

SHOWN_MAX = 1000


@dataclass(frozen=True, slots=True)
class ReplayCounters:
    """How many operations were reproduced, and which were not."""

    reproduced: int
    blocked: int
    not_reproduced: tuple[ReplayVerdict, ...]
    """SHOWN_MAX at most."""


def tally_of(verdicts: Iterable[ReplayVerdict]) -> ReplayCounters:
    """Count verdicts; memory is bounded by what is shown."""
    reproduced = blocked = 0
    shown: list[ReplayVerdict] = []
    for verdict in verdicts:
        if verdict.output_reproduced:
            reproduced += 1
            continue
        blocked += 1
        if len(shown) < SHOWN_MAX:
            shown.append(verdict)
    return ReplayCounters(reproduced, blocked, tuple(shown))


def reason_of(verdict: ReplayVerdict) -> str:
    """Return why an operation was not reproduced, in one line."""
    if verdict.difference is not None:
        return f"differs: {verdict.difference}"
    because = verdict.blocked_by_operation_id or verdict.recorded_output_id
    return f"{verdict.block_reason}{f': {because}' if because else ''}"


def tally_document(tally: ReplayCounters) -> dict[str, Any]:
    """Return the tally as JSON; a sequence is a string."""
    return {
        "reproduced": tally.reproduced,
        "blocked": tally.blocked,
        "not_reproduced": [
            {
                "ec_sequence_number": None
                if verdict.ec_sequence_number is None
                else str(verdict.ec_sequence_number),
                "operation_id": verdict.operation_id,
                "reason": reason_of(verdict),
                "fingerprint_match": verdict.fingerprint_match,
                "recorded_model_version": verdict.recorded_model_version,
                "current_model_version": verdict.current_model_version,
            }
            for verdict in tally.not_reproduced
        ],
    }
