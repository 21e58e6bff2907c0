"""Records where tokens end, and runs."""

from typing import Any

from kernel.landscape.errors import LandscapeRefused
from kernel.landscape.grades import grade_of_run
from kernel.landscape.record_chain import RecordChain
from kernel.landscape.record_group import RecordUnit
from kernel.landscape.record_rules import TABLES, check_new, check_stored
from kernel.landscape.recording import Recording
from kernel.landscape.run_rules import incompleteness
from kernel.ledger.landscape_tables import TERMINAL_OUTCOMES
from kernel.ledger.ledger import LedgerView
from kernel.ledger.store.tables import Row

_RUNS = TABLES["runs"]


class OutcomeRecording(Recording):
    """Records the outcomes of tokens and the ends of runs."""

    def record_token_outcome(
        self, /, run_id: str, token_id: str, outcome: str, *, context: Any = None, **fields: Any
    ) -> Row:
        """Record where a token's way ends, or that it waits in a batch (`buffered`).

        Each outcome has one field to state: `sink_name`, `batch_id`, `error_hash` or the group. A
        second terminal outcome is refused when it is written (`landscape_conflict`).
        """
        unit = RecordUnit(run_id)
        row = self._outcome(unit, token_id, outcome, context=context, **fields)
        self.group.add(unit)
        return dict(row)

    def complete_run(self, run_id: str, status: str = "completed") -> Row:
        """Record that a run is over, with its grade; nothing can be added to it afterwards.

        Raises:
            LandscapeRefused: `landscape_incomplete` where a run is to be `completed` and a row
                has no token, a token no terminal outcome, or a state, an operation or a batch no
                end; `landscape_run_over`; `landscape_unknown`.
        """
        self.flush()
        with self.ledger.store.transaction() as tables:
            row = tables.get(_RUNS, run_id)
            if row is None:
                raise LandscapeRefused(f"no run is called {run_id}", code="landscape_unknown")
            if row["status"] != "running":
                raise LandscapeRefused(f"the run {run_id} is over", code="landscape_run_over")
            hindrance = incompleteness(tables, run_id) if status == "completed" else None
            if hindrance is not None:
                raise LandscapeRefused(hindrance, code="landscape_incomplete")
            ended = check_stored(_RUNS, row) | {
                "status": status,
                "completed_at_us": self._now_us(),
                "reproducibility_grade": grade_of_run(LedgerView(tables), run_id),
            }
            check_new(_RUNS, ended)
            chain = RecordChain(tables)
            chain.take_in(run_id)
            tables.put(_RUNS, ended)
            chain.append(run_id, {str(_RUNS.name): [ended]})
        return ended

    def _outcome(
        self,
        unit: RecordUnit,
        token_id: str,
        outcome: str,
        *,
        branches: Any = None,
        context: Any = None,
        **fields: Any,
    ) -> Row:
        row = self._row(
            "token_outcomes",
            unit.run_id,
            self._new_id(),
            {
                "token_id": token_id,
                "outcome": outcome,
                "is_terminal": int(outcome in TERMINAL_OUTCOMES),
                "expected_branches_json": self._json(branches),
                "context_json": self._json(context),
                "recorded_at_us": self._now_us(),
                **fields,
            },
        )
        return unit.add(TABLES["token_outcomes"], row)
