"""Runs a job in memory: its content is checked, its function is called, its result is what is kept.

Nothing is recorded and no server is asked. A job that takes a context gets one: what it says of its
progress and what it submits is taken note of.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

import anyio

from kernel.ledger.ledger import Ledger, LedgerView
from kernel.ledger.store.memory import MemoryStore
from kernel.values.canonical import canonicalize, canonicalize_readable
from kernel.work.queue_kinds import QueueKind
from kernel.work.registrations import kind_of
from kernel.work.reports import RESULT_BYTES_MAX
from workers.plugins import AppJob, JobContext, QueuePlugin
from workers.plugins.registration import registration_of
from workers.plugins.testing.moved_clock import MovedClock

P = ParamSpec("P")
R = TypeVar("R")


@dataclass
class JobRunner:
    """Calls jobs as a worker does, and takes note of what they say meanwhile."""

    request_id: str = "request:in-memory"
    attempt: int = 1
    """Which attempt a job with a context is told that this is."""

    progress: list[tuple[int, str]] = field(default_factory=list)
    """What jobs said of how far they are: percent and note."""

    submitted: list[tuple[str, list[dict[str, Any]]]] = field(default_factory=list)
    """What jobs submitted: a session and its intents, each answered as accepted."""

    view: Callable[[], AbstractContextManager[LedgerView]] | None = None
    """Opens the record that jobs may read; an empty one without it."""

    async def run(self, job: AppJob[P, Any, R], *arguments: P.args, **named: P.kwargs) -> R:
        """Return the result of a job as who asks for it gets it.

        Raises:
            TypeError, ValidationError: the function takes no such arguments.
            ContentMisfit: a gateway would refuse them.
            ValueError: what the function returned is not of the type that it says.
            TimeoutError: it took longer than its limit.
            Exception: what the job raises, also `JobRefused`.
        """
        content = job.content_of(*arguments, **named)
        kind_by_schema(job.plugin).read(content, b"")
        value: R = job.result_form.value_of(await self.call(job.plugin, content) or {})
        return value

    async def call(self, plugin: QueuePlugin, content: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return what a handler returns for a content, as a worker would report it."""
        read = plugin.content.model_validate_json(canonicalize(dict(content)))
        with anyio.fail_after(plugin.limit_s):
            context = JobContext(
                request_id=self.request_id,
                content=read,
                attempt=self.attempt,
                deadline_s=anyio.current_time() + plugin.limit_s,
                view=self.view or _empty_record().view,
                submit=self._submit,
                progress=self._note,
            )
            result = await plugin.handler(context)
        return check_result(result)

    async def _submit(
        self, session_id: str, intents: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        self.submitted.append((session_id, [dict(intent) for intent in intents]))
        return [{"validation_result": "accepted"} for _ in intents]

    async def _note(self, percent: int, note: str = "") -> None:
        self.progress.append((percent, note))


async def run_job(job: AppJob[P, Any, R], *arguments: P.args, **named: P.kwargs) -> R:
    """Run a job in memory and return its result; see `JobRunner.run`."""
    return await JobRunner().run(job, *arguments, **named)


def kind_by_schema(plugin: QueuePlugin) -> QueueKind:
    """Return the row by which a gateway without the plug-in checks contents."""
    return kind_of(canonicalize(registration_of(plugin).document()))


def check_result(result: object) -> dict[str, Any] | None:
    """Return a result as it is reported.

    Raises:
        TypeError, ValueError: no record takes it.
    """
    if result is None:
        return None
    if not isinstance(result, Mapping):
        raise TypeError(f"a handler returns a mapping or None, not a {type(result).__name__}")
    document = dict(result)
    size = len(canonicalize_readable(document))
    if size > RESULT_BYTES_MAX:
        raise ValueError(f"a result of {size} bytes; at most {RESULT_BYTES_MAX} are taken")
    return document


def _empty_record() -> Ledger:
    return Ledger.create(MemoryStore(), MovedClock().host)
