"""Reads fields of one source by a model, through the isolation of §10.

The source is read as a synthesis reads one: it has to be isolated, and what is sealed leaves the
machine by a policy's word alone. The answer is one JSON object of the grammar below. A model quotes
words, and where they stand is looked up here; words that stand nowhere make all of the answer
worthless (decision workers/0114). Nothing is written: the answer goes, with what was captured of
it, to whoever hands the result in.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import anyio.to_thread
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from actors.errors import IntentInvalid, ModelError
from actors.synthesis.asking import CALL_TIMEOUT_S, ask_model
from actors.synthesis.disclosure import is_disclosable
from actors.synthesis.document_reader import DocumentReader, ReadDocument
from actors.synthesis.model_client import ModelClient, ModelParameters
from actors.synthesis.prompt import ISOLATION, assemble
from actors.synthesis.read_only_agent import ReadOnlyAgent, ScratchSpace
from kernel.ledger.ledger import Ledger, LedgerView
from kernel.model.extraction_result import (
    FIELDS_MAX,
    VALUE_CHARS_MAX,
    WORDS_CHARS_MAX,
    ExtractionRefused,
    FieldName,
)
from kernel.model.model_output import CapturedOutput
from kernel.transaction.outbound import RESTRICTED, is_outbound_authorized

VALUES_MAX = 128
"""Values that one answer may have."""

FIELDS = ("party", "date", "deadline", "amount", "document_number", "disposition")
"""What is asked for where a task names no fields."""

SYSTEM = f"""\
You read fields from one source.
{ISOLATION}
Answer with one JSON object of the grammar you were given and nothing else. In values each quote is
taken word for word from the content of the source, entities resolved, and says what the value is.
A field whose words are there and cannot be read is named in unreadable_fields."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class QuotedValue(_Part):
    """A value of a field, and the words of the source that say it."""

    field: FieldName
    value: Annotated[str, StringConstraints(min_length=1, max_length=VALUE_CHARS_MAX)]
    role: Annotated[str, StringConstraints(min_length=1, max_length=128)] | None = None
    quote: Annotated[str, StringConstraints(min_length=1, max_length=WORDS_CHARS_MAX)]


class ExtractedFields(_Part):
    """What a model read."""

    intent_kind: Literal["extracted_fields"]
    values: Annotated[tuple[QuotedValue, ...], Field(max_length=VALUES_MAX)]
    unreadable_fields: Annotated[tuple[FieldName, ...], Field(max_length=FIELDS_MAX)] = ()


_GRAMMAR: TypeAdapter[ExtractedFields] = TypeAdapter(ExtractedFields)


@dataclass(frozen=True, slots=True)
class ReadFields:
    """A result as a document, which nobody has held against the text yet."""

    document: dict[str, Any]
    outputs: tuple[CapturedOutput, ...]


class FieldExtraction:
    """Asks one model for the fields of sources of one ledger."""

    def __init__(
        self,
        ledger: Ledger,
        client: ModelClient,
        now_us: Callable[[], int],
        *,
        call_timeout_s: float = CALL_TIMEOUT_S,
    ) -> None:
        self._ledger = ledger
        self._client = client
        self._now_us = now_us
        self._call_timeout_s = call_timeout_s

    async def read(self, source_ref: str, fields: Sequence[str]) -> ReadFields:
        """Return what the model reads; `fields` are those that have to be there.

        Raises:
            ExtractionRefused: the source is not isolated, or the model quotes what it does not say.
            ModelError: the model was not asked, did not answer, or answered outside its grammar.
        """
        document = await anyio.to_thread.run_sync(
            self._ledger.read, lambda view: self._read(view, source_ref)
        )
        wanted = tuple(dict.fromkeys(fields)) or FIELDS
        parameters = ModelParameters(
            grammar=_GRAMMAR.json_schema(),
            prompt_caching=document.visibility_class not in RESTRICTED,
        )
        prompt = assemble(
            f"Which values of these fields does doc-1 state: {', '.join(wanted)}?",
            [document.source],
            grammar=parameters.grammar,
            system=SYSTEM,
        )
        output = await ask_model(
            self._client,
            prompt,
            parameters,
            source_refs=(source_ref,),
            now_us=self._now_us,
            timeout_s=self._call_timeout_s,
        )
        answer = read_fields(output.answer.decode(), wanted)
        stated = _document(answer, document.source.text, fields, output.model_version)
        return ReadFields(stated, (output,))

    def _read(self, view: LedgerView, source_ref: str) -> ReadDocument:
        authorized = is_outbound_authorized(view, "system")
        external = self._client.external
        reader = DocumentReader(ReadOnlyAgent(view, ScratchSpace()), lambda _: True)
        try:
            [document] = reader.read([source_ref])
        except IntentInvalid as invalid:
            raise ExtractionRefused("extraction_source_not_isolated", str(invalid)) from invalid
        if not is_disclosable(document.visibility_class, external=external, authorized=authorized):
            raise ModelError(
                "sealed_outbound_unauthorized",
                "sealed and firewalled sources leave this machine by a policy's word alone",
            )
        return document


def read_fields(text: str, wanted: Sequence[str]) -> ExtractedFields:
    """Return what a model answered.

    Raises:
        ModelError: `model_answer_invalid`, for what is not in the grammar and fields not asked for.
    """
    try:
        answer = _GRAMMAR.validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        problem = f"not in the grammar: {first['type']}"
        raise ModelError("model_answer_invalid", problem) from None
    named = {*(value.field for value in answer.values), *answer.unreadable_fields}
    if not named <= set(wanted):
        raise ModelError("model_answer_invalid", "a field that nobody asked for")
    return answer


def _document(
    answer: ExtractedFields, text: str, required: Sequence[str], model_version: str
) -> dict[str, Any]:
    """Return the answer as an extraction result; a repeated quote is its first place."""
    values = []
    for value in answer.values:
        start = text.find(value.quote)
        if start < 0:
            raise ExtractionRefused(
                "extraction_span_invented", "a quote that the text does not say"
            )
        place = {"start": start, "end": start + len(value.quote), "words": value.quote}
        values.append(value.model_dump(exclude={"quote"}, exclude_none=True) | place)
    read = dict.fromkeys(value.field for value in answer.values)
    failed = dict.fromkeys(answer.unreadable_fields, "not_readable")
    failed |= {
        name: "not_stated"
        for name in dict.fromkeys(required)
        if name not in read and name not in failed
    }
    return {
        "extractor": f"model:{model_version}"[:128],
        "values": values,
        "extraction_completeness": {
            "succeeded_fields": [name for name in read if name not in failed],
            "failed_fields": [{"field": name, "reason": why} for name, why in failed.items()],
        },
    }
