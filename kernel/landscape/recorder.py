"""Records what a pipeline does (seed 003, LandscapeRecorder): runs, graph, rows and tokens.

Every method returns at once with the record that it made; it is durable when `flush` has returned,
or at once with `group_records=1`. A record that breaks a rule of its table is refused here. What
only the store can know (another terminal outcome of the token, a state that somebody else has
finished, a run that is over) is refused when the group is written, and then the unit that does not
fit is left out as a whole and the next call that writes raises it.

Threads may share a recorder.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kernel.landscape.canonical_types import (
    CANONICAL_VERSION,
    digest_of,
    stable_hash,
    typed_data,
)
from kernel.landscape.errors import LandscapeRefused, RecordRefused
from kernel.landscape.outcomes import OutcomeRecording
from kernel.landscape.record_group import RecordUnit
from kernel.landscape.record_reading import RecordReading
from kernel.landscape.record_rules import TABLES, part_key
from kernel.landscape.runtime.stretches import PREFIX, is_runtime
from kernel.landscape.work_recording import WorkRecording
from kernel.ledger.store.tables import Row

BRANCHES_MAX = 10_000
"""Children of one fork or expansion, and parents of one join."""


class Recorder(WorkRecording, OutcomeRecording, RecordReading):
    """Records runs, their graph, rows and tokens; see the head of this file."""

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
            source_data_ref=self._kept(run_id, content) if keep_payload else None,
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
        children = [
            self._child(
                unit,
                [parent["token_id"]],
                parent["row_id"],
                place,
                token_id=_id_at(token_ids, place),
                branch_name=branch,
                fork_group_id=group_id,
                step_in_pipeline=step,
            )
            for place, branch in enumerate(branches)
        ]
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
        children = [
            self._child(
                unit,
                [parent["token_id"]],
                parent["row_id"],
                place,
                token_id=_id_at(token_ids, place),
                expand_group_id=group_id,
                step_in_pipeline=step,
            )
            for place in range(count)
        ]
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

        The token belongs to the row of the first member; `record_batch_output` is part of it.

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


def _id_at(token_ids: Sequence[str] | None, place: int) -> str | None:
    return None if token_ids is None else token_ids[place]


def _check_width(items: Iterable[Any]) -> None:
    count = sum(1 for _ in items)
    if not 1 <= count <= BRANCHES_MAX:
        message = f"{count} branches, from 1 to {BRANCHES_MAX} are allowed"
        raise LandscapeRefused(message, code="landscape_branches")
