"""The sources of the worked examples, and a synthesis of them by the local model."""

from typing import Any

from actors.orchestrator.intents import CreateSource, SynthesizeByModel
from actors.synthesis.local_model import LocalModel
from kernel.ledger.ledger import Document, Ledger
from kernel.model.result import SubmissionResult
from tests.actors.intents import put
from tests.actors.scripted_model import SESSION, running_synthesis

CORPUS = "corpus:brief-bank"


def put_source(
    ledger: Ledger, node_id: str, text: str, visibility_class: str, **fields: Any
) -> str:
    """Put a source on the record and return the operation that did."""
    intent = CreateSource(
        intent_key=f"ingest:{node_id}",
        node_id=node_id,
        corpus_id=CORPUS,
        content_kind="excerpt",
        text=text,
        visibility_class=visibility_class,
        **fields,
    )
    [result] = put(ledger, intent)
    return str(result.operation_id)


async def ask(ledger: Ledger, node_id: str, query: str, *source_refs: str) -> SubmissionResult:
    """Let the local model make an understanding of sources."""
    request = SynthesizeByModel(
        intent_key=f"ask:{node_id}",
        node_id=node_id,
        corpus_id=CORPUS,
        query=query,
        source_refs=source_refs,
    )
    async with running_synthesis(ledger, LocalModel()) as synthesis:
        result = await synthesis.run(SESSION, request)
    assert isinstance(result, SubmissionResult), result
    return result


def receipts_of(ledger: Ledger, result: SubmissionResult, kind: str) -> list[Document]:
    with ledger.view() as view:
        return [
            receipt
            for receipt in view.receipts_of(result.operation_id)
            if receipt["receipt_kind"] == kind
        ]
