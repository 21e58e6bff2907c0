"""Takes dockets to a gateway: the plan of each docket, sent in its order, several at a time.

The standing bindings come first, so that every entry is routed as it arrives (§13.3).

Running it again is safe at any point: sessions, intents and observations are named by the docket,
so the gateway recognises what it has and takes what it lacks. What an entry undoes closes the
docket's session, and a successor goes on (`docket_sessions.py`). Bad input is counted by its code,
and logged with its line, its field, what was read and what is allowed, and the rest goes on; a
docket whose session was declared differently before is reported as failed.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, BinaryIO, cast

import anyio
import structlog

from kernel.model.bindings.selectors import VALUE_MAX
from kernel.values.json_lines import printable_json
from workers.client.errors import GatewayError
from workers.client.session_operations import SessionOperations
from workers.client.typed.gateway import GatewayClient
from workers.demo.docket_sessions import DocketSessions, StrikeCounts
from workers.demo.standing_bindings import create_standing_bindings
from workers.dockets.field_map import BY_THEIR_NAMES, FieldMap
from workers.dockets.normalisation import bound_name
from workers.dockets.plan import (
    CAPTION,
    ENTRY,
    PRECEDING_ENTRY,
    CreateUnderstanding,
    DocketPlan,
    PlannedCaption,
    PlannedCase,
    PlannedClaim,
    PlannedPhase,
    PlannedSource,
    PlannedSuccession,
    Step,
    Strike,
    plan_docket,
)
from workers.dockets.reader import BadLine, Docket, read_dockets, storable
from workers.environment.terminal_progress import Progress

AT_ONCE = 8
CASES_MAX = 3
"""Cases of a summary."""

PROBLEMS_SAID_MAX = 20
"""Problems of one docket that are said one by one."""

_PRIORITY = {
    "core": "user_active_session",
    "supporting": "high_access_frequency",
    "tangential": "background_normal",
}
"""How urgently an understanding is recomputed when such a claim joins it."""

_ON_RECORD = frozenset({"artifact_phase_completed", "edge_already_exists", "node_already_exists"})
"""Refusals that say: this was recorded so long ago that its key has been archived."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class IngestedCase:
    """A case, and the last of its entries that struck a posture."""

    case_name: str
    session_id: str
    """The newest session of the case, which says what stands."""

    last_strike: Strike | None


@dataclass(slots=True)
class Summary:
    """The counts of an ingest."""

    bindings_created: int = 0
    """Standing bindings that were not on record before."""

    dockets: int = 0
    entries: int = 0
    accepted: int = 0
    already_on_record: int = 0
    strikes: StrikeCounts = field(default_factory=StrikeCounts)
    refused: Counter[str] = field(default_factory=Counter)
    """Operations that the gateway refused, by reason code."""

    problems: Counter[str] = field(default_factory=Counter)
    """Bad input, by code."""

    is_cut_off: bool = False
    """Whether the file, or what was left of it, could not be read as lines."""

    failed_dockets: list[str] = field(default_factory=list)
    cases: list[IngestedCase] = field(default_factory=list)
    """Some of the cases, to look at what was concluded."""

    bytes_done: int = 0
    """Bytes of the lines that nothing is left to do for, bad and blank ones included."""

    @property
    def eliminated(self) -> int:
        """Postures that were struck now."""
        return self.strikes.eliminated

    @property
    def is_failed(self) -> bool:
        """Whether a docket failed, the file could not be read to its end, or none was taken."""
        return bool(self.failed_dockets) or self.is_cut_off or not self.dockets

    def document(self) -> dict[str, Any]:
        """Return the summary as JSON has it."""
        return {
            "standing_bindings_created": self.bindings_created,
            "dockets": self.dockets,
            "entries": self.entries,
            "operations_accepted": self.accepted,
            "operations_already_on_record": self.already_on_record,
            "operations_refused": dict(self.refused),
            "hypotheses_eliminated": self.strikes.eliminated,
            "eliminations_already_applied": self.strikes.already_struck,
            "sessions_succeeded": self.strikes.succeeded,
            "input_problems": dict(self.problems),
            "dockets_failed": self.failed_dockets,
        }


def show_ingest(progress: Progress, size_bytes: int | None, summary: Summary) -> None:
    """Show how far an ingest is, and how long the rest takes where its size is known."""
    counts = f"{summary.dockets} dockets, {summary.entries} entries"
    if size_bytes is None:
        progress.show(counts)
    else:
        progress.count(summary.bytes_done, size_bytes, f"bytes, {counts}")


class Ingest:
    """One ingest of a file of dockets into one gateway."""

    def __init__(
        self,
        gateway: GatewayClient,
        progress: Callable[[Summary], None] = lambda _: None,
        fields: FieldMap = BY_THEIR_NAMES,
    ) -> None:
        self.summary = Summary()
        self._gateway = gateway
        self._progress = progress
        self._fields = fields
        self._away: GatewayError | None = None
        self._bytes_read = 0
        """Bytes of the lines that were read since the last docket."""

    async def run(self, source: BinaryIO | Iterable[bytes]) -> Summary:
        """Post every docket of a JSON Lines file, or of lines; returns when each is done or failed.

        Raises:
            GatewayError: `gateway_unreachable` when the gateway stays away.
        """
        created = await create_standing_bindings(self._gateway)
        self.summary.bindings_created = created.accepted
        self.summary.refused.update(created.refused)
        send, receive = anyio.create_memory_object_stream[tuple[Docket, int]](AT_ONCE)
        async with anyio.create_task_group() as tasks:
            for _ in range(AT_ONCE):
                tasks.start_soon(self._take, receive.clone(), tasks.cancel_scope)
            receive.close()
            async with send:
                for docket_and_bytes in self._good(source):
                    await send.send(docket_and_bytes)
        # Out here, because a task group would wrap it.
        if self._away is not None:
            raise self._away
        return self.summary

    def _good(self, source: BinaryIO | Iterable[bytes]) -> Iterator[tuple[Docket, int]]:
        """Yield each docket with the bytes that were read for it."""
        file = str(getattr(source, "name", ""))
        for read in read_dockets(self._counting_source(source), self._fields):
            item = storable(read) if isinstance(read, Docket) else read
            problems = (item.problem,) if isinstance(item, BadLine) else item.problems
            self.summary.problems.update(problem.code for problem in problems)
            place = {"file": file, "line": item.line_number}
            for problem in problems[:PROBLEMS_SAID_MAX]:
                _log.warning("docket_problem", **place, **problem.document())
            if len(problems) > PROBLEMS_SAID_MAX:
                count = len(problems) - PROBLEMS_SAID_MAX
                _log.warning("docket_problems_beyond", **place, count=count)
            if isinstance(item, Docket):
                bytes_read, self._bytes_read = self._bytes_read, 0
                yield item, bytes_read
            else:
                self.summary.is_cut_off = self.summary.is_cut_off or item.is_of_file
        self.summary.bytes_done += self._bytes_read

    def _counting_source(self, source: BinaryIO | Iterable[bytes]) -> BinaryIO | Iterable[bytes]:
        counted = _CountedReads(source, self._count_read)
        return cast("BinaryIO", counted) if hasattr(source, "readline") else counted.lines()

    def _count_read(self, bytes_read: int) -> None:
        self._bytes_read += bytes_read

    async def _take(self, receive: Any, all_of_us: anyio.CancelScope) -> None:
        async with receive:
            async for docket, bytes_read in receive:
                try:
                    await self._post_docket(docket)
                except GatewayError as error:
                    if error.code == "gateway_unreachable":
                        self._away = error
                        all_of_us.cancel()
                        return
                    place = {
                        "line": docket.line_number,
                        "source_id": printable_json(docket.source_id),
                    }
                    said = {"code": error.code, "field": error.field, "problem": error.message}
                    _log.error("docket_failed", **place, **said)
                    self.summary.failed_dockets.append(docket.source_id)
                self.summary.bytes_done += bytes_read
                self._progress(self.summary)

    async def _post_docket(self, docket: Docket) -> None:
        plan = plan_docket(docket)
        session_id = str(plan.session_id)
        sessions = DocketSessions(self._gateway, plan, self.summary.strikes)
        await sessions.open(_declaration(plan))
        corpus_id = f"corpus:{bound_name(docket.court_id)}"
        waiting: list[dict[str, Any]] = []
        last_strike: Strike | None = None
        waiting += (_intent(step, corpus_id) for step in plan.opening if _fits(step))
        for entry in plan.entries:
            for step in entry.steps:
                if isinstance(step, Strike | PlannedSuccession):
                    await self._flush(session_id, waiting)
                    await sessions.take(step)
                    last_strike = step if isinstance(step, Strike) else last_strike
                else:
                    waiting.append(_intent(step, corpus_id))
            self.summary.entries += 1
        await self._flush(session_id, waiting)
        await sessions.settle()
        self.summary.dockets += 1
        if len(self.summary.cases) < CASES_MAX:
            case_name = plan.declare.metadata["case_name"]
            self.summary.cases.append(IngestedCase(case_name, sessions.session_id, last_strike))

    async def _flush(self, session_id: str, waiting: list[dict[str, Any]]) -> None:
        intents, waiting[:] = tuple(waiting), ()
        unread: GatewayError | None = None
        async for outcome in SessionOperations(self._gateway, session_id).submit(intents):
            if outcome.result is None:
                unread = unread or outcome.error
            else:
                self._count(outcome.result)
        if unread is not None:
            raise unread
        self._progress(self.summary)

    def _count(self, result: Mapping[str, Any]) -> None:
        if result["validation_result"] == "accepted":
            if result["duplicate"]:
                self.summary.already_on_record += 1
            else:
                self.summary.accepted += 1
        elif result["reason_code"] in _ON_RECORD:
            self.summary.already_on_record += 1
        else:
            self.summary.refused[result["reason_code"]] += 1


class _CountedReads:
    """A file that is read line by line, so that what was read is what was taken of it."""

    def __init__(self, source: Any, count: Callable[[int], None]) -> None:
        self._source = source
        self._count = count

    def read(self, size: int) -> bytes:
        """Return the next line, or as much of it as asked for."""
        piece: bytes = self._source.readline(size)
        self._count(len(piece))
        return piece

    def lines(self) -> Iterator[bytes]:
        """Yield lines that were read before."""
        for line in self._source:
            self._count(len(line))
            yield line


def _declaration(plan: DocketPlan) -> dict[str, Any]:
    declare = plan.declare
    return {
        "session_id": str(plan.session_id),
        "ontology": declare.ontology,
        "hypotheses": list(declare.hypotheses),
        "metadata": declare.metadata,
        "validate_hypotheses": True,
    }


def _intent(step: Step, corpus_id: str) -> dict[str, Any]:
    kind, stated = _INTENTS[type(step)]
    return {"intent_kind": kind, "intent_key": step.intent_key, **stated(step, corpus_id)}


def _fits(step: Step) -> bool:
    """Tell whether a step can be taken; a case is not opened whose name no selector can have."""
    return not isinstance(step, PlannedCase) or len(step.case_ref) <= VALUE_MAX


def _case(step: PlannedCase, corpus_id: str) -> dict[str, Any]:
    return {"case_ref": step.case_ref, "corpus_id": corpus_id}


def _caption(step: PlannedCaption, corpus_id: str) -> dict[str, Any]:
    return {
        "node_id": step.node_id,
        "corpus_id": corpus_id,
        "content_kind": CAPTION,
        "text": step.text,
        "metadata": {"case_name": step.case_name} if step.case_name else {},
        **_intake(CAPTION, step),
    }


def _source(step: PlannedSource, corpus_id: str) -> dict[str, Any]:
    names = ("date_filed", "date_entered", "document_number", "pacer_seq_no", "digest")
    fields = {name: getattr(step, name) for name in names}
    fields[PRECEDING_ENTRY] = step.preceding_entry
    return {
        "node_id": step.node_id,
        "corpus_id": corpus_id,
        "content_kind": "ecf_entry_text",
        "text": step.description,
        "metadata": {name: value for name, value in fields.items() if value is not None},
        "visibility_class": step.visibility_class,
        "filing_date": step.date_filed,
        "understanding_id": step.understanding_node_id,
        **_intake(ENTRY, step),
    }


def _intake(source_kind: str, step: PlannedCaption | PlannedSource) -> dict[str, str]:
    return _selectable(
        {
            "source_kind": source_kind,
            "source_id": step.source_id,
            "source_path": step.source_path,
        }
    )


def _phase(step: PlannedPhase, _: str) -> dict[str, Any]:
    return {
        "artifact_ref": step.artifact_ref,
        "phase": step.phase,
        "fields": _selectable(step.fields),
    }


def _selectable(fields: Mapping[str, str]) -> dict[str, str]:
    """Return the fields by which a selector can judge; a value that is too long is none."""
    return {name: value for name, value in fields.items() if 0 < len(value) <= VALUE_MAX}


def _understanding(step: CreateUnderstanding, corpus_id: str) -> dict[str, Any]:
    spans = [
        {"source_ref": span.source_ref, "offset": span.offset, "length": span.length}
        for span in step.source_spans
    ]
    return {
        "node_id": step.node_id,
        "corpus_id": corpus_id,
        "title": step.node_id,
        "source_spans": spans,
    }


def _claim(step: PlannedClaim, corpus_id: str) -> dict[str, Any]:
    return {
        "node_id": step.node_id,
        "corpus_id": corpus_id,
        "span": {
            "source_ref": step.source_node_id,
            "offset": step.span.offset,
            "length": step.span.length,
        },
        "text": step.text,
        "authority": step.authority,
        "understanding_id": step.understanding_node_id,
        "essentiality": step.essentiality,
        "recompute_priority": _PRIORITY[step.essentiality],
    }


_INTENTS: Mapping[type[Step], tuple[str, Callable[[Any, str], dict[str, Any]]]] = MappingProxyType(
    {
        PlannedCase: ("create_case", _case),
        PlannedCaption: ("create_source", _caption),
        PlannedSource: ("create_source", _source),
        CreateUnderstanding: ("synthesize_cu", _understanding),
        PlannedClaim: ("create_claim", _claim),
        PlannedPhase: ("complete_phase", _phase),
    }
)
"""By the kind of step: the intent that takes it, and what that states."""
