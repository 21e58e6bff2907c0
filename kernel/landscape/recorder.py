"""Records what a pipeline does (seed 003, LandscapeRecorder)."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from kernel.landscape.canonical_types import data_or_repr, digest_of, stable_hash, typed_data
from kernel.landscape.errors import RecordRefused
from kernel.landscape.record_group import RecordUnit
from kernel.landscape.record_rules import TABLES, part_key
from kernel.landscape.token_recorder import TokenRecorder
from kernel.ledger.store.tables import Row

MISSING: Any = object()
"""No output; None is an output."""


class Recorder(TokenRecorder):
    """Records runs and their tokens, and what is done with these in nodes.

    These are states, operations, calls, routing, batches, artifacts and errors.
    """

    def begin_node_state(  # noqa: PLR0913 - the seed's own fields
        self,
        run_id: str,
        token_id: str,
        node_id: str,
        step_index: int,
        input_data: Any,
        *,
        attempt: int = 0,
        state_id: str | None = None,
        context_before: Any = None,
        keep_payload: bool = False,
    ) -> Row:
        """Record that a token enters a node; the state is open."""
        digest, ref = self._digest_and_keep(run_id, input_data, keep=keep_payload)
        return self._record_of(
            run_id,
            "node_states",
            state_id or self._new_id(),
            token_id=token_id,
            node_id=node_id,
            step_index=step_index,
            attempt=attempt,
            status="open",
            input_hash=digest,
            input_ref=ref,
            context_before_json=self._json(context_before),
            started_at_us=self._now_us(),
        )

    def record_node_state(  # noqa: PLR0913 - the seed's own fields
        self,
        run_id: str,
        token_id: str,
        node_id: str,
        step_index: int,
        input_data: Any,
        status: str,
        *,
        duration_us: int,
        output: Any = MISSING,
        error: Any = None,
        attempt: int = 0,
        state_id: str | None = None,
    ) -> Row:
        """Record that a token was in a node, and what became of it, where both are known now."""
        now_us = self._now_us()
        return self._record_of(
            run_id,
            "node_states",
            state_id or self._new_id(),
            token_id=token_id,
            node_id=node_id,
            step_index=step_index,
            attempt=attempt,
            status=status,
            input_hash=stable_hash(input_data),
            output_hash=None if output is MISSING else stable_hash(output),
            error_json=self._json(error),
            started_at_us=max(0, now_us - duration_us),
            completed_at_us=now_us,
            duration_us=duration_us,
        )

    def complete_node_state(  # noqa: PLR0913 - the seed's own fields
        self,
        run_id: str,
        state_id: str,
        status: str,
        *,
        output: Any = MISSING,
        duration_us: int,
        error: Any = None,
        success_reason: Any = None,
        context_after: Any = None,
        keep_payload: bool = False,
    ) -> Row:
        """Record what became of a state: `pending`, `completed` or `failed`; only once.

        Raises:
            RecordRefused: a field that the status requires is missing, or one is there that it
                forbids; nothing was recorded.
            LandscapeRefused: `landscape_conflict` where the state is finished.
        """
        digest, ref = (None, None)
        if output is not MISSING:
            digest, ref = self._digest_and_keep(run_id, output, keep=keep_payload)
        return self._change(
            "node_states",
            run_id,
            state_id,
            status=status,
            output_hash=digest,
            output_ref=ref,
            duration_us=duration_us,
            error_json=self._json(error),
            success_reason_json=self._json(success_reason),
            context_after_json=self._json(context_after),
            completed_at_us=self._now_us(),
        )

    def begin_operation(
        self, run_id: str, node_id: str, operation_type: str, *, input_data: Any = None
    ) -> Row:
        """Record that a source loads or a sink writes."""
        return self._record_of(
            run_id,
            "operations",
            self._new_id(),
            node_id=node_id,
            operation_type=operation_type,
            status="open",
            input_data_ref=self._keep_optional(run_id, input_data),
            started_at_us=self._now_us(),
        )

    def complete_operation(
        self,
        run_id: str,
        operation_id: str,
        status: str,
        *,
        duration_us: int,
        output_data: Any = None,
        error: str | None = None,
    ) -> Row:
        """Record what became of an operation: `pending`, `completed` or `failed`; only once.

        Raises:
            RecordRefused: of any other status.
            LandscapeRefused: `landscape_conflict` where it is finished.
        """
        _check_status(status, "pending", "completed", "failed")
        return self._change(
            "operations",
            run_id,
            operation_id,
            status=status,
            output_data_ref=self._keep_optional(run_id, output_data),
            error_message=error,
            duration_us=duration_us,
            completed_at_us=self._now_us() if status in ("completed", "failed") else None,
        )

    def record_call(  # noqa: PLR0913 - the seed's own fields
        self,
        run_id: str,
        call_type: str,
        status: str,
        request: Any,
        *,
        state_id: str | None = None,
        operation_id: str | None = None,
        response: Any = MISSING,
        error: Any = None,
        latency_us: int | None = None,
        keep_payloads: bool = False,
    ) -> Row:
        """Record a call to something outside, by a state or by an operation.

        Its index among the calls of its parent is given when it is written (decision kernel/0422).
        """
        digest, ref = self._digest_and_keep(run_id, request, keep=keep_payloads)
        answer, answer_ref = (None, None)
        if response is not MISSING:
            answer, answer_ref = self._digest_and_keep(run_id, response, keep=keep_payloads)
        row = self._record_of(
            run_id,
            "calls",
            self._new_id(),
            state_id=state_id,
            operation_id=operation_id,
            call_index=0,
            call_type=call_type,
            status=status,
            request_hash=digest,
            request_ref=ref,
            response_hash=answer,
            response_ref=answer_ref,
            error_json=self._json(error),
            latency_us=latency_us,
            created_at_us=self._now_us(),
        )
        del row["call_index"]
        return row

    def record_routing_events(
        self, run_id: str, state_id: str, routes: Sequence[tuple[str, str]], reason: Any = None
    ) -> list[Row]:
        """Record along which edges a gate sends a token, each with its mode, as one."""
        unit, group_id = RecordUnit(run_id), self._new_id()
        digest, ref = (None, None)
        if reason is not None:
            digest, ref = self._digest_and_keep(run_id, reason, keep=True)
        for ordinal, (edge_id, mode) in enumerate(routes):
            fields = {
                "state_id": state_id,
                "edge_id": edge_id,
                "routing_group_id": group_id,
                "ordinal": ordinal,
                "mode": mode,
                "reason_hash": digest,
                "reason_ref": ref,
                "created_at_us": self._now_us(),
            }
            row = self._row("routing_events", run_id, self._new_id(), fields)
            unit.add(TABLES["routing_events"], row)
        self.group.add(unit)
        return [dict(row) for _, row in unit.added]

    def record_routing_event(
        self, run_id: str, state_id: str, edge_id: str, mode: str, reason: Any = None
    ) -> Row:
        """Record along which edge a gate sends a token."""
        [event] = self.record_routing_events(run_id, state_id, [(edge_id, mode)], reason)
        return event

    def create_batch(
        self,
        run_id: str,
        aggregation_node_id: str,
        *,
        attempt: int = 0,
        batch_id: str | None = None,
    ) -> Row:
        """Record that a batch begins to gather."""
        return self._record_of(
            run_id,
            "batches",
            batch_id or self._new_id(),
            aggregation_node_id=aggregation_node_id,
            attempt=attempt,
            status="draft",
            created_at_us=self._now_us(),
        )

    def add_batch_member(self, run_id: str, batch_id: str, token_id: str, ordinal: int) -> Row:
        """Record that a token belongs to a batch."""
        return self._record_of(
            run_id,
            "batch_members",
            part_key(batch_id, ordinal),
            batch_id=batch_id,
            token_id=token_id,
            ordinal=ordinal,
        )

    def update_batch(
        self,
        run_id: str,
        batch_id: str,
        status: str,
        *,
        trigger_type: str | None = None,
        trigger_reason: str | None = None,
        state_id: str | None = None,
    ) -> Row:
        """Record how far a batch is; what is not stated stays as it was."""
        stated = {
            "trigger_type": trigger_type,
            "trigger_reason": trigger_reason,
            "aggregation_state_id": state_id,
        }
        is_over = status in ("completed", "failed")
        return self._change(
            "batches",
            run_id,
            batch_id,
            status=status,
            completed_at_us=self._now_us() if is_over else None,
            **{name: value for name, value in stated.items() if value is not None},
        )

    def complete_batch(
        self,
        /,
        run_id: str,
        batch_id: str,
        status: Literal["completed", "failed"] = "completed",
        **stated: str | None,
    ) -> Row:
        """Record that a batch is over; what it states is that of `update_batch`.

        Raises:
            RecordRefused: of any other status.
        """
        _check_status(status, "completed", "failed")
        return self.update_batch(run_id, batch_id, status, **stated)

    def register_artifact(
        self,
        run_id: str,
        state_id: str,
        sink_node_id: str,
        artifact_type: str,
        path: str,
        content_hash: str,
        size_bytes: int,
        *,
        idempotency_key: str | None = None,
    ) -> Row:
        """Record what a sink has made."""
        return self._record_of(
            run_id,
            "artifacts",
            self._new_id(),
            produced_by_state_id=state_id,
            sink_node_id=sink_node_id,
            artifact_type=artifact_type,
            path_or_uri=path,
            content_hash=content_hash,
            size_bytes=size_bytes,
            idempotency_key=idempotency_key,
            created_at_us=self._now_us(),
        )

    def record_validation_error(
        self,
        run_id: str,
        row_data: Any,
        error: str,
        *,
        node_id: str | None = None,
        schema_mode: str = "strict",
        destination: str = "discard",
    ) -> Row:
        """Record a row of a source that is not valid, whatever it consists of."""
        content = data_or_repr(row_data)
        return self._record_of(
            run_id,
            "validation_errors",
            self._new_id(),
            node_id=node_id,
            row_hash=digest_of(content),
            row_data_json=content.decode(),
            error=error,
            schema_mode=schema_mode,
            destination=destination,
            created_at_us=self._now_us(),
        )

    def record_transform_error(
        self,
        run_id: str,
        token_id: str,
        transform_id: str,
        row_data: Any,
        details: Mapping[str, Any],
        *,
        destination: str = "discard",
    ) -> Row:
        """Record that a transform failed on a token, whatever it was given and says of it."""
        content = data_or_repr(row_data)
        return self._record_of(
            run_id,
            "transform_errors",
            self._new_id(),
            token_id=token_id,
            transform_id=transform_id,
            row_hash=digest_of(content),
            row_data_json=content.decode(),
            error_details_json=data_or_repr(dict(details)).decode(),
            destination=destination,
            created_at_us=self._now_us(),
        )

    def _digest_and_keep(self, run_id: str, value: Any, *, keep: bool) -> tuple[str, str | None]:
        if not keep:
            return stable_hash(value), None
        content = typed_data(value)
        return digest_of(content), self._keep_payload(run_id, content)

    def _keep_optional(self, run_id: str, value: Any) -> str | None:
        return None if value is None else self._keep_payload(run_id, typed_data(value))


def _check_status(status: str, *allowed: str) -> None:
    if status not in allowed:
        message = f"what is over is {' or '.join(allowed)}, not {status!r}"
        raise RecordRefused("landscape_record_invalid", "status", message)
