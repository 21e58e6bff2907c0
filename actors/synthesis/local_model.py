"""Answers without a network: quotes, from each source, the sentence that fits the question best.

It is extractive and deterministic: the same prompt and parameters give the same bytes, on every
machine. It understands nothing; it counts words. It asks for no look-ups.
"""

import re
from collections.abc import Mapping
from typing import Any

import anyio.to_thread
import orjson

from actors.synthesis.model_client import LOCAL_PROVIDER, ModelAnswer, ModelCall
from actors.synthesis.prompt import CONTENT, parse_prompt

LOCAL_VERSION = "rotulus-local-1"
SENTENCE_MAX_CHARS = 400
TITLE_MAX_CHARS = 200
READ_AT_ONCE_CHARS = 16_384
"""Characters that are read on the event loop: a thread would cost more than the reading."""

# Each pattern reads a character once, and returns to the interpreter after each word, sentence or
# stretch of what is neither, so other threads go on in between.
_STRETCH = re.compile(r"([^.!?\n]++)[.!?]*+")
_WORD = re.compile(r"\W{0,4096}+(\w*+)")


class LocalModel:
    """The deterministic client of this repository."""

    external = False

    async def complete(self, call: ModelCall) -> ModelAnswer:
        """Answer with a draft that quotes every source which has a sentence, or with a label."""
        if len(call.prompt) <= READ_AT_ONCE_CHARS:
            return self._answer_of(call)
        return await anyio.to_thread.run_sync(self._answer_of, call)

    @staticmethod
    def _answer_of(call: ModelCall) -> ModelAnswer:
        prompt = parse_prompt(call.prompt)
        if asks_for_a_label(call.parameters.grammar):
            read = "\n".join(field.text for field in prompt.fields if field.kind == CONTENT)
            return _answer(call, label_text(call.parameters.grammar, read))
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


def asks_for_a_label(grammar: Mapping[str, Any]) -> bool:
    """Tell whether a grammar is an object, one of whose properties is one of several texts."""
    return any("enum" in stated for stated in _properties(grammar).values())


def label_text(grammar: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Return an object of the grammar about a text; what it cannot fill is left out.

    Of the labels it chooses the one that the text names most often, the earliest of several, and
    the last label where it names none. A number is the share of the chosen label in all that were
    named, a text is the sentence of the text that names it.
    """
    properties = _properties(grammar)
    labels = next(stated["enum"] for stated in properties.values() if "enum" in stated)
    read = [word.casefold() for word in words(text)]
    counts = {label: read.count(str(label).casefold()) for label in labels}
    named = sum(counts.values())
    chosen = labels[-1]
    if named:
        most = max(counts.values())
        chosen = min(
            (label for label in labels if counts[label] == most),
            key=lambda label: read.index(str(label).casefold()),
        )
    answers = {
        "number": counts[chosen] / named if named else 0.0,
        "string": _sentence_with(text, str(chosen)),
    }
    return {
        name: chosen if "enum" in stated else answers[stated["type"]]
        for name, stated in properties.items()
        if "enum" in stated or stated.get("type") in answers
    }


def _properties(grammar: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    stated = grammar.get("properties")
    properties: Mapping[str, Mapping[str, Any]] = stated if isinstance(stated, Mapping) else {}
    return properties


def _sentence_with(text: str, label: str) -> str:
    cut, folded = sentences(text), label.casefold()
    named = (each for each in cut if folded in each.casefold())
    return next(named, cut[0] if cut else "")[:SENTENCE_MAX_CHARS]


def sentences(text: str) -> list[str]:
    """Return every stretch between full stops and ends of lines that is not blank, in order."""
    return [match[0].strip() for match in _STRETCH.finditer(text) if not match[1].isspace()]


def words(text: str) -> list[str]:
    """Return every run of letters, digits and underscores, in order."""
    return [word for match in _WORD.finditer(text) if (word := match[1])]
