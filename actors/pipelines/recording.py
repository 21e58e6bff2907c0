"""The recorder's face for coroutines: the same recorder, whose writing holds no event loop up."""

from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import Concatenate, ParamSpec, TypeVar

import anyio.to_thread

from kernel.landscape.record_group import GROUP_RECORDS
from kernel.landscape.recorder import Recorder
from kernel.ledger.ledger import Ledger

P = ParamSpec("P")
T = TypeVar("T")


def _on_a_thread(
    method: Callable[Concatenate[Recorder, P], T],
) -> Callable[Concatenate["AsyncRecorder", P], Awaitable[T]]:
    """Return a recorder's method as a coroutine, with the same arguments and errors."""

    @wraps(method)
    async def call(self: "AsyncRecorder", /, *args: P.args, **named: P.kwargs) -> T:
        return await self.record(lambda recorder: partial(method, recorder)(*args, **named))

    return call


class AsyncRecorder:
    """Records on a thread: one implementation, `kernel.landscape.recorder`, with two faces.

    Each method is the recorder's of the same name. Cancellation is waited for: what has begun to be
    recorded is.
    """

    def __init__(self, ledger: Ledger, *, group_records: int = GROUP_RECORDS) -> None:
        """Record on a ledger, so many records in one transaction."""
        self._recorder = Recorder(ledger, group_records=group_records)

    async def record(self, make: Callable[[Recorder], T]) -> T:
        """Record what a function records, and return its result; it may record many things.

        Raises:
            LandscapeRefused: as the recorder's methods.
            LedgerUnavailable: as the recorder's methods.
        """
        return await anyio.to_thread.run_sync(make, self._recorder)

    flush = _on_a_thread(Recorder.flush)

    begin_run = _on_a_thread(Recorder.begin_run)
    complete_run = _on_a_thread(Recorder.complete_run)
    register_node = _on_a_thread(Recorder.register_node)
    register_edge = _on_a_thread(Recorder.register_edge)

    create_row = _on_a_thread(Recorder.create_row)
    create_token = _on_a_thread(Recorder.create_token)
    fork_token = _on_a_thread(Recorder.fork_token)
    expand_token = _on_a_thread(Recorder.expand_token)
    coalesce_tokens = _on_a_thread(Recorder.coalesce_tokens)
    consume_batch = _on_a_thread(Recorder.consume_batch)
    record_token_outcome = _on_a_thread(Recorder.record_token_outcome)

    begin_node_state = _on_a_thread(Recorder.begin_node_state)
    record_node_state = _on_a_thread(Recorder.record_node_state)
    complete_node_state = _on_a_thread(Recorder.complete_node_state)
    begin_operation = _on_a_thread(Recorder.begin_operation)
    complete_operation = _on_a_thread(Recorder.complete_operation)
    record_call = _on_a_thread(Recorder.record_call)
    record_routing_event = _on_a_thread(Recorder.record_routing_event)
    record_routing_events = _on_a_thread(Recorder.record_routing_events)

    create_batch = _on_a_thread(Recorder.create_batch)
    add_batch_member = _on_a_thread(Recorder.add_batch_member)
    update_batch = _on_a_thread(Recorder.update_batch)
    complete_batch = _on_a_thread(Recorder.complete_batch)
    record_batch_output = _on_a_thread(Recorder.record_batch_output)
    retry_batch = _on_a_thread(Recorder.retry_batch)
    get_incomplete_batches = _on_a_thread(Recorder.get_incomplete_batches)

    register_artifact = _on_a_thread(Recorder.register_artifact)
    record_validation_error = _on_a_thread(Recorder.record_validation_error)
    record_transform_error = _on_a_thread(Recorder.record_transform_error)

    get_run = _on_a_thread(Recorder.get_run)
    list_runs = _on_a_thread(Recorder.list_runs)
    get_record = _on_a_thread(Recorder.get_record)
    get_records = _on_a_thread(Recorder.get_records)
    find_call_by_request_hash = _on_a_thread(Recorder.find_call_by_request_hash)
    get_call_response_data = _on_a_thread(Recorder.get_call_response_data)
