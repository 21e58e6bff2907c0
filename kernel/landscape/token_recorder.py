"""Records what a run is of and where its tokens go (seed 003): graph, rows, tokens, outcomes.

Every method returns at once with the record that it made; it is durable when `flush` has returned,
or at once with `group_records=1`. A record that breaks a rule of its table is refused here. A clash
that only the store can know (another terminal outcome of the token, a state that somebody else has
finished, a run that is over) is refused when the group is written, and then the unit that does not
fit is left out as a whole and the next call that writes raises it.

Threads may share a recorder.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from kernel.landscape.canonical_types import (
    CANONICAL_VERSION,
    digest_of,
    stable_hash,
    typed_data,
)
from kernel.landscape.errors import LandscapeRefused, RecordRefused
from kernel.landscape.grades import grade_of_run
from kernel.landscape.payloads import payload_row
from kernel.landscape.record_chain import RecordChain
from kernel.landscape.record_group import GROUP_RECORDS, RecordGroup, RecordUnit
from kernel.landscape.record_rules import KEYS, TABLES, check_new, check_stored, part_key
from kernel.landscape.run_rules import incompleteness
from kernel.landscape.runtime.stretches import PREFIX, is_runtime
from kernel.ledger.landscape_tables import TERMINAL_OUTCOMES
from kernel.ledger.ledger import Ledger, LedgerView
from kernel.ledger.store.keys import column_names
from kernel.ledger.store.tables import Row

BRANCHES_MAX = 10_000
"""Children of one fork or expansion, and parents of one join."""

_RUNS = TABLES["runs"]


class TokenRecorder:
    """Records runs, their graph, rows, tokens and outcomes; see the head of this file."""

    def __init__(self, ledger: Ledger, *, group_records: int = GROUP_RECORDS) -> None:
        """Record on a ledger, so many records in one transaction."""
        self.ledger = ledger
        self.group = RecordGroup(ledger, group_records)

    def flush(self) -> None:
        """Write what was recorded; when this returns, everything recorded before is durable.

        Raises:
            LandscapeRefused: something did not fit what the store holds; the rest was written.
            LedgerUnavailable: nothing was written, everything waits.
        """
        self.group.flush()

    def whole(self, run_id: str) -> AbstractContextManager[None]:
        """Write what a block records in one transaction, or, if the block raises, none of it.

        One thread records meanwhile; the records are durable after the next `flush`.
        """
        return self.group.whole(run_id)

    def record_of(self, run_id: str, name: str, **fields: Any) -> Row:
        """Record a record of a table under a new id, made now."""
        return self._record_of(run_id, name, self._new_id(), created_at_us=self._now_us(), **fields)

    def begin_run(
        self,
        config: Mapping[str, Any],
        *,
        run_id: str | None = None,
        source_schema: Any = None,
        source_field_resolution: Mapping[str, Any] | None = None,
    ) -> Row:
        """Record that a run begins under a configuration.

        Raises:
            RecordRefused: `landscape_record_invalid` of a name that the runtime's runs have.
        """
        if run_id is not None and is_runtime(run_id):
            message = f"{PREFIX} begins the names of the runtime's own runs"
            raise RecordRefused("landscape_record_invalid", "run_id", message)
        content = typed_data(dict(config))
        return self._record(
            "runs",
            run_id or self._new_id(),
            status="running",
            config_hash=digest_of(content),
            settings_json=content.decode(),
            canonical_version=CANONICAL_VERSION,
            source_schema_json=self._json(source_schema),
            source_field_resolution_json=self._json(source_field_resolution),
            started_at_us=self._now_us(),
        )

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

    def register_node(  # noqa: PLR0913 - the seed's own fields
        self,
        run_id: str,
        node_id: str,
        plugin_name: str,
        node_type: str,
        config: Any = None,
        *,
        plugin_version: str = "1",
        determinism: str = "deterministic",
        schema: Any = None,
        sequence: int | None = None,
    ) -> Row:
        """Record a node of the run's graph."""
        content, schema_content = typed_data(config), self._json(schema)
        return self._record_of(
            run_id,
            "nodes",
            node_id,
            plugin_name=plugin_name,
            plugin_version=plugin_version,
            node_type=node_type,
            determinism=determinism,
            config_hash=digest_of(content),
            config_json=content.decode(),
            schema_hash=None if schema is None else stable_hash(schema),
            schema_json=schema_content,
            sequence_in_pipeline=sequence,
            registered_at_us=self._now_us(),
        )

    def register_edge(
        self, run_id: str, from_node_id: str, to_node_id: str, label: str, mode: str = "move"
    ) -> Row:
        """Record an edge of the run's graph."""
        return self._record_of(
            run_id,
            "edges",
            self._new_id(),
            from_node_id=from_node_id,
            to_node_id=to_node_id,
            label=label,
            default_mode=mode,
            created_at_us=self._now_us(),
        )

    def create_row(
        self,
        run_id: str,
        source_node_id: str,
        row_index: int,
        data: Any,
        *,
        row_id: str | None = None,
        keep_payload: bool = False,
    ) -> Row:
        """Record a row of a source; its data is kept as a payload where that is asked for."""
        content = typed_data(data)
        digest = digest_of(content)
        return self._record_of(
            run_id,
            "rows",
            row_id or self._new_id(),
            source_node_id=source_node_id,
            row_index=row_index,
            source_data_hash=digest,
            source_data_ref=self._keep_payload(run_id, content) if keep_payload else None,
            created_at_us=self._now_us(),
        )

    def create_token(
        self, run_id: str, row_id: str, *, token_id: str | None = None, step: int | None = None
    ) -> Row:
        """Record a row's way through the graph."""
        unit = RecordUnit(run_id)
        token = self._token(unit, row_id, token_id=token_id, step_in_pipeline=step)
        self.group.add(unit)
        return dict(token)

    def fork_token(
        self,
        run_id: str,
        parent: Row,
        branches: Sequence[str],
        *,
        step: int | None = None,
        token_ids: Sequence[str] | None = None,
    ) -> list[Row]:
        """Record that a token goes on along several branches, and its outcome, as one.

        `token_ids` are those of the children; without them new ones are made.

        Raises:
            LandscapeRefused: `landscape_branches` of no branch, of too many, or of one twice.
        """
        _check_width(branches)
        twice = next((name for name, count in Counter(branches).items() if count > 1), None)
        if twice is not None:
            message = f"a fork goes into the branch {twice} once, not twice"
            raise LandscapeRefused(message, code="landscape_branches")
        unit, group_id = RecordUnit(run_id), self._new_id()
        shared = {"fork_group_id": group_id, "step_in_pipeline": step}
        fields = [{"branch_name": branch, **shared} for branch in branches]
        children = self._children(unit, parent, token_ids, fields)
        self._outcome(
            unit, parent["token_id"], "forked", fork_group_id=group_id, branches=list(branches)
        )
        self.group.add(unit)
        return [dict(child) for child in children]

    def expand_token(
        self,
        run_id: str,
        parent: Row,
        count: int,
        *,
        step: int | None = None,
        record_parent_outcome: bool = True,
        token_ids: Sequence[str] | None = None,
    ) -> list[Row]:
        """Record that a token becomes several, and its outcome, as one; see `fork_token`.

        Raises:
            LandscapeRefused: `landscape_branches` of no child, or of too many.
        """
        _check_width(range(count))
        unit, group_id = RecordUnit(run_id), self._new_id()
        fields = [{"expand_group_id": group_id, "step_in_pipeline": step}] * count
        children = self._children(unit, parent, token_ids, fields)
        if record_parent_outcome:
            stated = {"count": count}
            self._outcome(
                unit, parent["token_id"], "expanded", expand_group_id=group_id, branches=stated
            )
        self.group.add(unit)
        return [dict(child) for child in children]

    def coalesce_tokens(
        self,
        run_id: str,
        parents: Sequence[Row],
        *,
        step: int | None = None,
        token_id: str | None = None,
    ) -> Row:
        """Record that tokens become one, and the outcome of each, as one.

        Raises:
            LandscapeRefused: `landscape_branches` of no parent, or of too many.
        """
        _check_width(parents)
        unit, group_id = RecordUnit(run_id), self._new_id()
        token_ids = [parent["token_id"] for parent in parents]
        merged = self._child(
            unit,
            token_ids,
            parents[0]["row_id"],
            0,
            token_id=token_id,
            join_group_id=group_id,
            step_in_pipeline=step,
        )
        for parent_id in token_ids:
            self._outcome(unit, parent_id, "coalesced", join_group_id=group_id)
        self.group.add(unit)
        return dict(merged)

    def consume_batch(
        self,
        run_id: str,
        batch_id: str,
        members: Sequence[Row],
        *,
        step: int | None = None,
        token_id: str | None = None,
    ) -> Row:
        """Record that a batch became a token, whose parents its members are, and their outcomes.

        The token belongs to the row of the first member; what came out of the batch is part of it.

        Raises:
            LandscapeRefused: `landscape_branches` of no member, or of too many.
        """
        _check_width(members)
        unit = RecordUnit(run_id)
        token_ids = [member["token_id"] for member in members]
        merged = self._child(
            unit, token_ids, members[0]["row_id"], 0, token_id=token_id, step_in_pipeline=step
        )
        fields = {"batch_id": batch_id, "output_type": "token", "output_id": merged["token_id"]}
        output = self._row("batch_outputs", run_id, self._new_id(), fields)
        unit.add(TABLES["batch_outputs"], output)
        for member_id in token_ids:
            self._outcome(unit, member_id, "consumed_in_batch", batch_id=batch_id)
        self.group.add(unit)
        return dict(merged)

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

    def _children(
        self,
        unit: RecordUnit,
        parent: Row,
        token_ids: Sequence[str] | None,
        fields: Sequence[Mapping[str, Any]],
    ) -> list[Row]:
        """Add a child of a token for each mapping of fields, under its id where ids are given."""
        names: Sequence[str | None] = [None] * len(fields) if token_ids is None else token_ids
        parents, row_id = [parent["token_id"]], parent["row_id"]
        return [
            self._child(unit, parents, row_id, place, token_id=names[place], **stated)
            for place, stated in enumerate(fields)
        ]

    def _child(
        self, unit: RecordUnit, parent_ids: Sequence[str], row_id: str, place: int, **fields: Any
    ) -> Row:
        token = self._token(unit, row_id, **fields)
        token_id = token["token_id"]
        # Of several parents each has its place; of one parent its children have.
        first = place if len(parent_ids) == 1 else 0
        for ordinal, parent_id in enumerate(parent_ids, first):
            row = {
                "run_id": unit.run_id,
                "link_id": part_key(token_id, ordinal),
                "token_id": token_id,
                "parent_token_id": parent_id,
                "ordinal": ordinal,
            }
            unit.add(TABLES["token_parents"], row)
        return token

    def _token(
        self, unit: RecordUnit, row_id: str, *, token_id: str | None = None, **fields: Any
    ) -> Row:
        row = self._row(
            "tokens",
            unit.run_id,
            token_id or self._new_id(),
            {"row_id": row_id, "created_at_us": self._now_us(), **fields},
        )
        return unit.add(TABLES["tokens"], row)

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

    def _record(self, name: str, record_id: str, **fields: Any) -> Row:
        return self._record_of(record_id, name, record_id, **fields)

    def _record_of(self, run_id: str, name: str, record_id: str, **fields: Any) -> Row:
        row = self._row(name, run_id, record_id, fields)
        self.group.add_record(TABLES[name], row)
        return row.copy()

    def _row(self, name: str, run_id: str, record_id: str, fields: Mapping[str, Any]) -> Row:
        empty, key = _empty(name)
        return {**empty, "run_id": run_id, key: record_id, **fields}

    def _change(self, name: str, run_id: str, record_id: str, **changes: Any) -> Row:
        return self.group.change(TABLES[name], run_id, record_id, changes)

    def _keep_payload(self, run_id: str, content: bytes) -> str:
        payload = payload_row(run_id, content)
        self.group.add_payload(payload)
        return str(payload["content_hash"])

    def _json(self, value: Any) -> str | None:
        return None if value is None else typed_data(value).decode()

    def _new_id(self) -> str:
        return self.ledger.host.new_id()

    def _now_us(self) -> int:
        return self.ledger.host.now_us()


def _check_width(items: Iterable[Any]) -> None:
    count = sum(1 for _ in items)
    if not 1 <= count <= BRANCHES_MAX:
        message = f"{count} branches, from 1 to {BRANCHES_MAX} are allowed"
        raise LandscapeRefused(message, code="landscape_branches")


@cache
def _empty(name: str) -> tuple[Row, str]:
    return dict.fromkeys(column_names(TABLES[name])), KEYS[name]
