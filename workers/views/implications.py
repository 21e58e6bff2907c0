"""What detectors of implications have read, and what is halted, the same at every door (§19.1)."""

from dataclasses import asdict
from typing import Any

from kernel.implications.halts import halts_of
from kernel.implications.runs import runs_of
from kernel.ledger.ledger import LedgerView


def implications_document(view: LedgerView, *, after: str = "", limit: int) -> dict[str, Any]:
    """Return the newest run of every detector, and a page of the halts that stand."""
    halts = halts_of(view, after=after, limit=limit)
    return {
        "detectors": [
            {
                **asdict(run),
                "after_sequence": str(run.after_sequence),
                "through_sequence": str(run.through_sequence),
            }
            for run in runs_of(view)
        ],
        "halts": [asdict(halt) for halt in halts],
        "next_after": halts[-1].halt_id if len(halts) == limit else None,
    }
