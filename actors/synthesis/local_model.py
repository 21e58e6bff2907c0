"""A model without a network: it quotes, from each source, the sentence that fits the question best.

It is extractive and deterministic: the same prompt and parameters give the same bytes, on every
machine. It understands nothing; it counts words. It asks for no look-ups.
"""

import anyio.to_thread
import orjson

from actors.synthesis.label_choice import asks_for_a_label, labelled
from actors.synthesis.model_client import LOCAL_PROVIDER, ModelAnswer, ModelCall
from actors.synthesis.prompt import CONTENT, parse_prompt
from actors.synthesis.words import sentences, words

LOCAL_VERSION = "rotulus-local-1"
SENTENCE_MAX_CHARS = 400
TITLE_MAX_CHARS = 200
READ_AT_ONCE_CHARS = 16_384
"""Characters that are read on the event loop: a thread would cost more than the reading."""


class LocalModel:
    """The deterministic client of this repository."""

    external = False

    async def complete(self, call: ModelCall) -> ModelAnswer:
        """Answer with a draft that quotes every source which has a sentence, or with a label."""
        if len(call.prompt) <= READ_AT_ONCE_CHARS:
            return self._answered(call)
        return await anyio.to_thread.run_sync(self._answered, call)

    @staticmethod
    def _answered(call: ModelCall) -> ModelAnswer:
        prompt = parse_prompt(call.prompt)
        if asks_for_a_label(call.parameters.grammar):
            read = "\n".join(field.text for field in prompt.fields if field.kind == CONTENT)
            return _answer(call, labelled(call.parameters.grammar, read))
        query_words = frozenset(_words(prompt.query))
        quotes = [
            {"quote": sentence, "source": field.source}
            for field in prompt.fields
            if field.kind == CONTENT
            if (sentence := _best_sentence(field.text, query_words))
        ]
        if quotes:
            draft = {
                "intent_kind": "synthesize_cu",
                "title": prompt.query.strip()[:TITLE_MAX_CHARS] or "Summary",
                "text": "\n".join(quote["quote"] for quote in quotes),
                "source_spans": quotes,
            }
        else:
            draft = {"intent_kind": "no_finding"}
        return _answer(call, draft)


def _answer(call: ModelCall, document: object) -> ModelAnswer:
    text = orjson.dumps(document, option=orjson.OPT_SORT_KEYS).decode()
    usage = {"prompt_tokens": len(_words(call.prompt)), "completion_tokens": len(_words(text))}
    return ModelAnswer(text, LOCAL_VERSION, LOCAL_PROVIDER, usage)


def _best_sentence(text: str, query_words: frozenset[str]) -> str:
    """Return the earliest of the sentences that share most words with the question."""
    return max(
        (sentence[:SENTENCE_MAX_CHARS] for sentence in sentences(text)),
        key=lambda sentence: len(query_words.intersection(_words(sentence))),
        default="",
    )


def _words(text: str) -> list[str]:
    return words(text.casefold())
