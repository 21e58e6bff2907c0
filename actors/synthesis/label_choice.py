"""Answers for the model without a network where a grammar asks for a label: it counts words.

Of the labels that a grammar admits it chooses the one that the text names most often, the earliest
of several, and the last label where it names none. A number is the share of the chosen label in all
that were named, a text is the sentence of the text that names it.
"""

from collections.abc import Mapping
from typing import Any

from actors.synthesis.words import sentences, words

QUOTE_CHARS_MAX = 400


def asks_for_a_label(grammar: Mapping[str, Any]) -> bool:
    """Tell whether a grammar is an object, one of whose properties is one of several texts."""
    return any("enum" in stated for stated in _properties(grammar).values())


def labelled(grammar: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Return an object of the grammar about a text; what it cannot fill is left out."""
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
    return next(named, cut[0] if cut else "")[:QUOTE_CHARS_MAX]
