"""Collects sources for a prompt: the reading part of a synthesis, a specialist's (§20.2).

1. A source is read only if it is isolated: its content and every field of its metadata stand inside
   markers, and its record says so. One that is not is refused, not repaired (F3 of §10.6).
2. A document that was read is remembered with its version, whether a model asked for it or a person
   (EC4).
3. A look-up sees one corpus, and of it only what may be told to the model that asks. A document
   that it may not be told of is as if it were not there.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from actors.errors import IntentInvalid
from actors.orchestrator.intents import ReadVersion
from actors.orchestrator.resolvers import SOURCE
from actors.orchestrator.untrusted_content import unwrap_untrusted
from actors.synthesis.answer_grammar import ReadSource, SearchSources
from actors.synthesis.prompt import PromptSource
from actors.synthesis.read_only_agent import ReadOnlyAgent
from kernel.ledger.ledger import Document
from kernel.ledger.simulations import MOST_RESTRICTIVE
from kernel.model.node_kinds import FRAMING_KINDS
from kernel.records.sources import SourceClasses

SEARCH_NODES_MAX = 2000
SEARCH_FOUND_MAX = 5

_GONE = frozenset({"rejected", "soft_deleted"})
_ISOLATED = ("prompt_injection_isolation_wrapper_applied", "metadata_wrapper_applied")


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """A source as it was read: where, at which version, how restricted, and what it says."""

    version: ReadVersion
    visibility_class: str
    source: PromptSource


class DocumentReader:
    """Reads sources through what a specialist is given."""

    def __init__(self, agent: ReadOnlyAgent, may_see: Callable[[str], bool]) -> None:
        self._agent = agent
        self._may_see = may_see
        """Whether the model may see sources of a visibility class."""

    def read(self, node_ids: Iterable[str]) -> list[ReadDocument]:
        """Return sources by their ids, each once.

        Raises:
            IntentInvalid: when one is not there, is no evidence, or is not isolated.
        """
        return [self._document(node_id) for node_id in dict.fromkeys(node_ids)]

    def look_up(self, lookup: SearchSources | ReadSource, corpus_id: str) -> list[ReadDocument]:
        """Return what a model asked for, at most `SEARCH_FOUND_MAX` sources of the corpus."""
        if isinstance(lookup, ReadSource):
            return self._documents_of([lookup.node_id], corpus_id)
        words = [word.casefold() for word in lookup.words]
        documents: list[ReadDocument] = []
        nodes = self._agent.view.nodes_of_kind(SOURCE, after=None, limit=SEARCH_NODES_MAX)
        for node in nodes:
            for document in self._documents_of([node["node_id"]], corpus_id):
                text = document.source.text.casefold()
                if all(word in text for word in words):
                    documents.append(document)
            if len(documents) == SEARCH_FOUND_MAX:
                break
        return documents

    def _documents_of(self, node_ids: list[str], corpus_id: str) -> list[ReadDocument]:
        shown = []
        for node_id in node_ids:
            node = self._agent.view.node(node_id)
            if node is None or not self._may_see(self._class_of(node_id)):
                continue
            if self._is_member(node_id, corpus_id) and _problem(node) is None:
                shown.append(self._document(node_id))
        return shown

    def _is_member(self, node_id: str, corpus_id: str) -> bool:
        membership = self._agent.view.membership(corpus_id, node_id)
        return membership is not None and membership["state"] not in _GONE

    def _document(self, node_id: str) -> ReadDocument:
        node = self._agent.view.node(node_id)
        if node is None:
            raise IntentInvalid(f"no source {node_id}", "source_refs")
        problem = _problem(node)
        if problem is not None:
            raise IntentInvalid(f"{node_id} {problem}", "source_refs")
        version = ReadVersion(
            node_id=node_id,
            version=node["version"],
            operation_id=node["updated_by_operation_id"],
            updated_at=node["updated_at"],
        )
        payload = node["payload"]
        metadata = {
            name: unwrap_untrusted(text) for name, text in payload.get("metadata", {}).items()
        }
        source = PromptSource(unwrap_untrusted(payload["content"]), metadata)
        return ReadDocument(version, self._class_of(node_id), source)

    def _class_of(self, node_id: str) -> str:
        """Return how restricted a node is, with what it was drawn from (§7)."""
        return SourceClasses(self._agent.view).of_ref(node_id) or MOST_RESTRICTIVE


def _problem(node: Document) -> str | None:
    """Return why a node may not be part of a prompt."""
    payload = node["payload"]
    if node["node_kind"] in FRAMING_KINDS:
        return "frames and is no evidence"
    if node["node_kind"] != SOURCE or "content" not in payload:
        return "is not a source with text"
    if node["state"] != "active":
        return f"is {node['state']}"
    metadata = payload.get("metadata", {})
    texts = [payload["content"], *(metadata.values() if isinstance(metadata, dict) else [None])]
    flagged = all(payload.get(name) is True for name in _ISOLATED)
    if not flagged or not all(map(_is_wrapped, texts)):
        return "is not isolated: content or metadata outside of markers"
    return None


def _is_wrapped(text: object) -> bool:
    try:
        return isinstance(text, str) and unwrap_untrusted(text) is not None
    except ValueError:
        return False
