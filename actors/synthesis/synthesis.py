"""Asks a model: reads, asks, checks the answer, and only then asks the session to record it.

It runs outside of the transaction, because a model takes its time (decision actors/0008). So the
sources may have changed when the operation is recorded: the operation states the versions that were
read, has the operations that wrote them as causal parents, and takes its taint from the sources as
they are then (§7.3).

A request that was answered before is not put to the model again (K6); neither is one whose draft
waits in the session's context because the session could not take it. A synthesis that fails writes
nothing. The bytes of every answer that led to an operation are recorded with it (§6.4).
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import anyio.to_thread

from actors.errors import ModelError
from actors.messages import PRINCIPAL, Operate, Query
from actors.orchestrator.intents import (
    MAX_MODEL_CALLS,
    MAX_MODEL_SOURCES,
    Intent,
    SourceSpan,
    SynthesizeByModel,
    SynthesizedUnderstanding,
)
from actors.orchestrator.orchestrator import idempotency_key, intent_digest
from actors.sessions.runtime import Sessions
from actors.synthesis.answer_grammar import (
    LOOKUPS,
    Answer,
    NoFinding,
    ReadSource,
    SearchSources,
    UnderstandingDraft,
    grammar,
    read_answer,
)
from actors.synthesis.asking import CALL_TIMEOUT_S, ask_model
from actors.synthesis.disclosure import is_disclosable
from actors.synthesis.document_reader import DocumentReader, ReadDocument
from actors.synthesis.model_client import ModelClient, ModelParameters
from actors.synthesis.prompt import assemble
from actors.synthesis.read_only_agent import ContextFull, ReadOnlyAgent, SessionContexts
from kernel.ledger.ledger import Ledger, LedgerView
from kernel.model.model_output import CapturedOutput
from kernel.model.result import RejectedResult, SubmissionResult
from kernel.transaction.outbound import RESTRICTED, is_outbound_authorized
from kernel.values.host import Host
from kernel.values.idempotency_keys import scoped_key

CALLS_AT_ONCE_MAX = 8

T = TypeVar("T")


@dataclass(slots=True)
class _Work:
    """One synthesis under way."""

    session_id: str
    request: SynthesizeByModel
    documents: list[ReadDocument] = field(default_factory=list)
    outputs: list[CapturedOutput] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    authorized: bool = False
    emitted: list[Intent] = field(default_factory=list)

    def add(self, documents: list[ReadDocument]) -> int:
        """Take documents that are new; returns how many."""
        known = {document.version.node_id for document in self.documents}
        new = [document for document in documents if document.version.node_id not in known]
        if len(self.documents) + len(new) > MAX_MODEL_SOURCES:
            raise ModelError("model_prompt_too_large", f"more than {MAX_MODEL_SOURCES} sources")
        self.documents += new
        return len(new)

    @property
    def restricted(self) -> bool:
        """Whether a source that was read is sealed or firewalled."""
        return any(document.visibility_class in RESTRICTED for document in self.documents)


class Synthesis:
    """Answers a request for synthesis with the result of its operation."""

    def __init__(
        self,
        ledger: Ledger,
        sessions: Sessions,
        client: ModelClient,
        host: Host,
        *,
        call_timeout_s: float = CALL_TIMEOUT_S,
    ) -> None:
        self._ledger = ledger
        self._sessions = sessions
        self._client = client
        self._host = host
        self._call_timeout_s = call_timeout_s
        self._contexts = SessionContexts(host.now_us)
        self._running = 0

    async def run(self, session_id: str, request: SynthesizeByModel) -> object:
        """Return the kernel's result for a request, as `Operate` gives it for an intent.

        Raises:
            BeliefError: there is no such session.
            IntentInvalid: the request cannot be put to a model.
            ModelError: the model was not asked, did not answer, or answered outside its grammar.
        """
        if self._running >= CALLS_AT_ONCE_MAX:
            raise ModelError("model_busy", f"{CALLS_AT_ONCE_MAX} syntheses are under way")
        self._running += 1
        try:
            await self._sessions.ask(session_id, Query())
            work = _Work(session_id, request)
            principal = PRINCIPAL.get()
            if await self._reading(
                work, lambda agent: was_asked_before(agent.view, request, principal)
            ):
                # The kernel gives the first answer, or refuses other content under the key.
                work.emitted.append(SynthesizedUnderstanding(**_naming(request)))
            elif not await self._reading(work, lambda agent: _recall(agent, request)):
                await self._ask_model(work)
            [result] = await self._sessions.ask(session_id, Operate(tuple(work.emitted)))
        finally:
            self._running -= 1
        if isinstance(result, SubmissionResult | RejectedResult):
            self._contexts.of(session_id).drop(_draft_key(request))
        return result

    async def _ask_model(self, work: _Work) -> None:
        await self._reading(work, lambda agent: self._read_sources(agent, work))
        for _ in range(MAX_MODEL_CALLS):
            answer = await self._call(work)
            if isinstance(answer, NoFinding):
                raise ModelError("model_found_nothing", "the sources do not answer the question")
            if isinstance(answer, UnderstandingDraft):
                intent = _intent_of(work, answer)
                await self._reading(work, partial(_hand_over, intent=intent))
                return
            added = await self._reading(work, partial(self._look_up, work=work, lookup=answer))
            work.notes.append(f"You asked: {answer.intent_kind}. Sources added: {added}.")
        raise ModelError("model_answer_invalid", f"no draft after {MAX_MODEL_CALLS} calls")

    async def _reading(self, work: _Work, step: Callable[[ReadOnlyAgent], T]) -> T:
        """Run a step of the reading part in a snapshot of its own, off the event loop.

        No snapshot is held while a model thinks.
        """
        context = self._contexts.of(work.session_id)
        return await anyio.to_thread.run_sync(
            self._ledger.read, lambda view: step(ReadOnlyAgent(view, context, work.emitted))
        )

    def _reader(self, agent: ReadOnlyAgent, work: _Work) -> DocumentReader:
        def may_see(visibility_class: str) -> bool:
            return is_disclosable(
                visibility_class, external=self._client.external, authorized=work.authorized
            )

        return DocumentReader(agent, may_see)

    def _read_sources(self, agent: ReadOnlyAgent, work: _Work) -> None:
        work.authorized = is_outbound_authorized(agent.view, "user")
        work.add(self._reader(agent, work).read(work.request.source_refs))

    def _look_up(
        self, agent: ReadOnlyAgent, work: _Work, lookup: SearchSources | ReadSource
    ) -> int:
        work.authorized = is_outbound_authorized(agent.view, "user")
        return work.add(self._reader(agent, work).look_up(lookup, work.request.corpus_id))

    async def _call(self, work: _Work) -> Answer:
        if self._client.external and work.restricted and not work.authorized:
            raise ModelError(
                "sealed_outbound_unauthorized",
                "sealed and firewalled sources leave this machine by a policy's word alone",
            )
        may_search = work.request.may_search
        parameters = ModelParameters(
            grammar=grammar(may_search=may_search),
            tools=LOOKUPS if may_search else (),
            prompt_caching=not work.restricted,
        )
        prompt = assemble(
            work.request.query,
            [document.source for document in work.documents],
            grammar=parameters.grammar,
            notes=work.notes,
        )
        output = await ask_model(
            self._client,
            prompt,
            parameters,
            source_refs=[document.version.node_id for document in work.documents],
            now_us=self._host.now_us,
            timeout_s=self._call_timeout_s,
        )
        work.outputs.append(output)
        return read_answer(output.answer.decode(), may_search=may_search)


def was_asked_before(
    view: LedgerView, request: SynthesizeByModel, principal: str | None = None
) -> bool:
    """Tell whether the key of a request, in its principal's scope, has an answer that still holds.

    Raises:
        IntentInvalid: when the request has no canonical form.
    """
    intent_digest(request)
    key = idempotency_key(
        request, "user", "create", (request.node_id,), view.policy_generation_id()
    )
    record = view.live_idempotency_record(scoped_key(principal, key))
    return record is not None and record["expires_at_us"] > view.head().committed_at_us


def _recall(agent: ReadOnlyAgent, request: SynthesizeByModel) -> bool:
    """Emit the draft that waits for a request, if one does."""
    draft = agent.session_context.get(_draft_key(request))
    if draft is None:
        return False
    agent.emit(SynthesizedUnderstanding.model_validate_json(draft))
    return True


def _hand_over(agent: ReadOnlyAgent, intent: SynthesizedUnderstanding) -> None:
    # One that does not fit is asked of the model again, should the session not take it.
    with suppress(ContextFull):
        content = intent.model_dump_json().encode()
        agent.session_context.put(_draft_key(intent.request), content)
    agent.emit(intent)


def _draft_key(request: SynthesizeByModel) -> str:
    return f"draft:{intent_digest(request)}"


def _intent_of(work: _Work, draft: UnderstandingDraft) -> SynthesizedUnderstanding:
    return SynthesizedUnderstanding(
        **_naming(work.request),
        title=draft.title,
        text=draft.text,
        source_spans=tuple(
            _span(work.documents, span.source, span.quote) for span in draft.source_spans
        ),
        read=tuple(document.version for document in work.documents),
        outputs=tuple(work.outputs),
    )


def _span(documents: list[ReadDocument], name: str, quote: str) -> SourceSpan:
    """Return the span of a quote, the earliest if the source holds it more than once."""
    index = int(name.removeprefix("doc-")) - 1
    if index >= len(documents):
        raise ModelError("model_answer_invalid", "a quote names a source that was not given")
    document = documents[index]
    offset = document.source.text.find(quote)
    if offset < 0:
        raise ModelError("model_answer_invalid", "a quote is not in the source that it names")
    return SourceSpan(source_ref=document.version.node_id, offset=offset, length=len(quote))


def _naming(request: SynthesizeByModel) -> dict[str, object]:
    return {"intent_key": request.intent_key, "request": request}
