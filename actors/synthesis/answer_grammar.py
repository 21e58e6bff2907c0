"""Says what an answer may be to do anything: layer 2 of prompt-injection isolation (§10.3).

An answer is one JSON object that is exactly one of these kinds. None of them takes an instruction:
a draft may title, word and quote; a look-up may name a source or words (decision actors/0009).
Whatever else an answer says reaches nobody who acts.

A model quotes words, not offsets. The synthesis looks up where they stand, and a quote that stands
nowhere makes the answer invalid. A model names sources as `doc-1`, `doc-2`; ids of the record are
not in the prompt, except those that the model asks for.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from actors.errors import ModelError
from actors.orchestrator.intents import Content, Id

QUOTES_MAX = 256

Text = Annotated[Content, StringConstraints(min_length=1)]


class _Draft(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Quote(_Draft):
    """Words of a source, which is named as the prompt names it."""

    source: Annotated[str, StringConstraints(pattern=r"^doc-[1-9][0-9]{0,3}$")]
    quote: Text


class UnderstandingDraft(_Draft):
    """An understanding that quotes its sources."""

    intent_kind: Literal["synthesize_cu"]
    title: Annotated[str, StringConstraints(min_length=1, max_length=1000)]
    text: Text
    source_spans: Annotated[
        tuple[Quote, ...], Field(min_length=1, max_length=QUOTES_MAX, fail_fast=True)
    ]


class NoFinding(_Draft):
    """The sources do not answer the question."""

    intent_kind: Literal["no_finding"]


class SearchSources(_Draft):
    """Look for sources of the corpus that hold all of these words."""

    intent_kind: Literal["search_sources"]
    words: Annotated[
        tuple[Annotated[str, StringConstraints(min_length=1, max_length=100)], ...],
        Field(min_length=1, max_length=8),
    ]


class ReadSource(_Draft):
    """Look at a source of the corpus by its id."""

    intent_kind: Literal["read_source"]
    node_id: Id


Draft = Annotated[UnderstandingDraft | NoFinding, Field(discriminator="intent_kind")]
DraftOrLookup = Annotated[
    UnderstandingDraft | NoFinding | SearchSources | ReadSource, Field(discriminator="intent_kind")
]
Answer = UnderstandingDraft | NoFinding | SearchSources | ReadSource

LOOKUPS = ("search_sources", "read_source")

_GRAMMARS: dict[bool, TypeAdapter[Any]] = {
    False: TypeAdapter(Draft),
    True: TypeAdapter(DraftOrLookup),
}


def grammar(*, may_search: bool) -> dict[str, Any]:
    """Return the JSON schema of the answers that are taken."""
    return _GRAMMARS[may_search].json_schema()


def read_answer(text: str, *, may_search: bool) -> Answer:
    """Return what a model answered.

    Raises:
        ModelError: `model_answer_invalid`, for anything that is not in the grammar.
    """
    try:
        answer: Answer = _GRAMMARS[may_search].validate_json(text)
    except (ValidationError, UnicodeEncodeError) as error:
        problem = _first_problem(error)
        raise ModelError("model_answer_invalid", f"not in the grammar: {problem}") from None
    return answer


def _first_problem(error: ValidationError | UnicodeEncodeError) -> str:
    if isinstance(error, UnicodeEncodeError):
        return "not Unicode"
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    # Where it went wrong may be a key that the model made up; what went wrong is our own word.
    return str(first["type"])
