"""A small graph on a ledger, and an intent of every kind that fits it."""

from typing import Any

from actors.commit.units import IntentUnit
from actors.orchestrator.intents import (
    AdaptFields,
    AnchorBelief,
    CreateClaim,
    CreateSource,
    InputsStated,
    Intent,
    LinkInput,
    ReadVersion,
    RecalculateAuthority,
    SourceSpan,
    SynthesizeByModel,
    SynthesizedUnderstanding,
    SynthesizeUnderstanding,
    WriteCausalGraph,
)
from actors.orchestrator.resolved_operation import make_effect
from kernel.authority.inputs import StatedInputs
from kernel.authority.strategy import BetaPosteriorMean
from kernel.authority.value import authority_of
from kernel.ledger.ledger import Document, Ledger
from kernel.model.model_output import CapturedOutput
from kernel.model.result import SubmissionResult
from kernel.model.stated_receipts import BeliefAnchor
from tests.actors.harness import bench_on

CORPUS = "corpus:test"
TEXT = "The court orders <both> parties & their counsel to file."


def source(node_id: str, text: str = TEXT, **changes: Any) -> CreateSource:
    fields: dict[str, Any] = {"intent_key": f"key:{node_id}", "content_kind": "order", **changes}
    return CreateSource(node_id=node_id, corpus_id=CORPUS, text=text, **fields)


def span(source_ref: str, offset: int = 0, length: int = 9) -> SourceSpan:
    return SourceSpan(source_ref=source_ref, offset=offset, length=length)


def understanding(node_id: str, *sources: str, **changes: Any) -> SynthesizeUnderstanding:
    fields: dict[str, Any] = {
        "intent_key": f"key:{node_id}",
        "title": "What was ordered",
        "source_spans": tuple(span(source) for source in sources),
        **changes,
    }
    return SynthesizeUnderstanding(node_id=node_id, corpus_id=CORPUS, **fields)


def claim(node_id: str, source_ref: str, **changes: Any) -> CreateClaim:
    fields: dict[str, Any] = {
        "intent_key": f"key:{node_id}",
        "span": span(source_ref),
        "text": TEXT[:9],
        "authority": 0.75,
        **changes,
    }
    return CreateClaim(node_id=node_id, corpus_id=CORPUS, **fields)


def link(source_id: str, target_id: str, **changes: Any) -> LinkInput:
    fields: dict[str, Any] = {"intent_key": f"key:{source_id}->{target_id}", **changes}
    fields.setdefault("essentiality", "core")
    return LinkInput(source_node_id=source_id, target_node_id=target_id, **fields)


def adapt(node_id: str, intent_key: str = "adapt", **fields: Any) -> AdaptFields:
    return AdaptFields(intent_key=intent_key, node_id=node_id, fields=fields)


def recalculation(ledger: Ledger, node_id: str, **changes: Any) -> RecalculateAuthority:
    """The recompute that a worker would send that reads the ledger now."""
    with ledger.view() as view:
        node = view.node(node_id)
        value, inputs = (
            authority_of(view, BetaPosteriorMean(), node)
            if node
            else (0.5, StatedInputs(digest="0" * 64))
        )
        as_of = view.head().ec_sequence_number
    fields: dict[str, Any] = {
        "intent_key": f"recompute:{node_id}:{as_of}",
        "as_of_sequence": as_of,
        "cu_authority": value,
        "inputs": InputsStated.model_validate(inputs.document()),
        **changes,
    }
    return RecalculateAuthority(target_cu_id=node_id, **fields)


def anchored(session_id: str, index: int, prior: str, head: str) -> AnchorBelief:
    stated = {
        "session_id": session_id,
        "prior_head_event_hash": prior,
        "first_event_index": index,
        "last_event_index": index,
        "head_event_hash": head,
    }
    return AnchorBelief(intent_key=head, anchor=BeliefAnchor.model_validate({"sessions": [stated]}))


def asking(node_id: str, *sources: str, **changes: Any) -> SynthesizeByModel:
    fields: dict[str, Any] = {
        "intent_key": f"key:{node_id}",
        "query": "What was ordered?",
        "source_refs": sources,
        **changes,
    }
    return SynthesizeByModel(node_id=node_id, corpus_id=CORPUS, **fields)


def captured(*sources: str, answer: bytes = b"{}", **changes: Any) -> CapturedOutput:
    fields: dict[str, Any] = {
        "model_version": "scripted-1",
        "model_provider": "local",
        "prompt_hash": "a" * 64,
        "parameter_hash": "b" * 64,
        "answered_at": "2026-01-01T00:00:00.000000Z",
        "tier_2_prompt_cache_used": False,
        "token_usage": {"prompt_tokens": 3},
        **changes,
    }
    return CapturedOutput(answer=answer, source_refs=sources, **fields)


def read_version(ledger: Ledger, node_id: str) -> ReadVersion:
    node = node_of(ledger, node_id)
    return ReadVersion(
        node_id=node_id,
        version=node["version"],
        operation_id=node["updated_by_operation_id"],
        updated_at=node["updated_at"],
    )


def synthesized(
    ledger: Ledger, node_id: str, *sources: str, **changes: Any
) -> SynthesizedUnderstanding:
    """What the synthesis hands over after one call of a model that read all sources."""
    fields: dict[str, Any] = {
        "request": asking(node_id, *sources),
        "title": "What was ordered",
        "text": TEXT,
        "source_spans": tuple(span(source) for source in sources),
        "read": tuple(read_version(ledger, source) for source in sources),
        "outputs": (captured(*sources, answer=b'{"said":1}'),),
        **changes,
    }
    return SynthesizedUnderstanding(intent_key=fields["request"].intent_key, **fields)


def causal_graph(*node_ids: str) -> WriteCausalGraph:
    """Nodes of the causal graph that are new, as a merge would write them."""
    refs = tuple(f"causal-node:{node_id}" for node_id in node_ids)
    payload = {"node_kind": "CausalNode", "described": False}
    membership = {"corpus_id": CORPUS, "to_state": "candidate"}
    effects = [make_effect("node_write", ref, payload) for ref in refs]
    effects += [make_effect("membership_write", ref, membership) for ref in refs]
    fields: dict[str, Any] = {"verb": "create", "effects": tuple(effects), "node_refs": refs}
    return WriteCausalGraph(intent_key="merge", **fields)


def put(ledger: Ledger, *intents: Intent, **options: Any) -> list[Any]:
    """Put intents on the record, each of which must be accepted."""
    results = attempt(ledger, *intents, **options)
    for result in results:
        assert isinstance(result, SubmissionResult), result
    return results


def attempt(
    ledger: Ledger, *intents: Intent, session_id: str | None = "s-1", **options: Any
) -> list:
    with bench_on(ledger) as context:
        return [IntentUnit(intent, session_id, **options).run(context) for intent in intents]


def envelope_of(ledger: Ledger, result: SubmissionResult) -> Document:
    with ledger.view() as view:
        envelope = view.envelope(result.operation_id)
    assert envelope is not None
    return envelope


def node_of(ledger: Ledger, node_id: str) -> Document:
    with ledger.view() as view:
        node = view.node(node_id)
    assert node is not None
    return node
