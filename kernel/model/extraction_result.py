"""Models what an extraction hands in: values with the stretches that prove them.

A value quotes the words that it was read from and says where they stand, counted in Unicode code
points. `check_extraction` holds the quotation against the text, so that what an extractor made up
is refused and never becomes a claim (decision workers/0114).
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from kernel.model.numbers import Offset, PositiveCount
from kernel.model.problems import first_problem
from kernel.values.errors import KernelError

EXTRACTION_TEXT_CHARS_MAX = 4 << 20
VALUES_MAX = 512
FIELDS_MAX = 64
WORDS_CHARS_MAX = 4_096
VALUE_CHARS_MAX = 1_024

FieldName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,63}$")]

FailureReason = Literal["not_stated", "not_readable", "limit_reached", "not_attempted"]
"""not_stated: the text has no words for it. not_readable: some words for it give no value.
limit_reached: further ones were left out. not_attempted: the extractor ended before it."""

PARTIAL: frozenset[str] = frozenset({"not_readable", "limit_reached"})
"""Reasons with which a field fails although it has values: not all of them."""

Code = Literal[
    "extraction_result_invalid",
    "extraction_result_too_large",
    "extraction_run_not_known",
    "extraction_source_not_isolated",
    "extraction_source_too_large",
    "extraction_source_unavailable",
    "extraction_span_outside_text",
    "extraction_span_invented",
    "extraction_completeness_contradicted",
    "extractor_failed",
    "extractor_timed_out",
    "extractor_unknown",
    "model_not_configured",
]


class ExtractionRefused(KernelError):
    """The result of an extraction is refused as a whole; `field` names what is wrong in it."""

    def __init__(self, code: Code, message: str, field: str = "") -> None:
        super().__init__(message, code=code)
        self.field = field


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ExtractedValue(_Model):
    """One value of a field, and the words of the source that say it."""

    field: FieldName
    value: Annotated[str, StringConstraints(min_length=1, max_length=VALUE_CHARS_MAX)]
    role: Annotated[str, StringConstraints(min_length=1, max_length=128)] | None = None
    """What the value is to the source: who a party is in it, what falls due, what is ruled on."""
    start: Offset
    end: PositiveCount
    words: Annotated[str, StringConstraints(min_length=1, max_length=WORDS_CHARS_MAX)]


class FailedField(_Model):
    """A field that should have been found and was not, or not all of it."""

    field: FieldName
    reason: FailureReason


class ExtractionCompleteness(_Model):
    """Which fields succeeded, which failed, and why (INV-EXT-3)."""

    succeeded_fields: Annotated[
        tuple[FieldName, ...], Field(max_length=FIELDS_MAX, fail_fast=True)
    ] = ()
    failed_fields: Annotated[
        tuple[FailedField, ...], Field(max_length=FIELDS_MAX, fail_fast=True)
    ] = ()


class ExtractionResult(_Model):
    """What an extractor read from one text."""

    extractor: Annotated[str, StringConstraints(min_length=1, max_length=128)]
    """The extractor's name and version."""
    values: Annotated[tuple[ExtractedValue, ...], Field(max_length=VALUES_MAX, fail_fast=True)]
    extraction_completeness: ExtractionCompleteness
    schema_version: Literal[1] = 1

    @property
    def state(self) -> Literal["succeeded", "degraded"]:
        """The state in which a run ends with this result (§16.3)."""
        return "degraded" if self.extraction_completeness.failed_fields else "succeeded"


def read_extraction(document: Mapping[str, Any], text: str) -> ExtractionResult:
    """Read an untrusted answer as a result and hold it against the text.

    Raises:
        ExtractionRefused: the answer has no such form, or says what the text does not prove.
    """
    try:
        # JSON has lists where the models have tuples.
        result = ExtractionResult.model_validate(document, strict=False)
    except ValidationError as error:
        field, message = first_problem(error)
        raise ExtractionRefused("extraction_result_invalid", message, field) from None
    check_extraction(result, text)
    return result


def check_extraction(result: ExtractionResult, text: str) -> None:
    """Hold a result against the text that it was read from.

    Raises:
        ExtractionRefused: a span lies outside the text, its words are not those of the text, or
            the completeness contradicts the values.
    """
    if len(text) > EXTRACTION_TEXT_CHARS_MAX:
        raise ExtractionRefused(
            "extraction_source_too_large",
            f"{len(text)} characters; at most {EXTRACTION_TEXT_CHARS_MAX} are read",
        )
    for index, value in enumerate(result.values):
        if not value.start < value.end <= len(text):
            raise ExtractionRefused(
                "extraction_span_outside_text",
                f"{value.start} to {value.end} is no stretch of a text of {len(text)} characters",
                f"values.{index}",
            )
        if text[value.start : value.end] != value.words:
            raise ExtractionRefused(
                "extraction_span_invented",
                f"the text does not say these words from {value.start} to {value.end}",
                f"values.{index}.words",
            )
    _check_completeness(result)


def _check_completeness(result: ExtractionResult) -> None:
    with_values = {value.field for value in result.values}
    succeeded = result.extraction_completeness.succeeded_fields
    failed = {item.field: item.reason for item in result.extraction_completeness.failed_fields}
    cut_short = {name for name, reason in failed.items() if reason in PARTIAL}
    contradicted = (
        (set(succeeded) ^ (with_values - cut_short))
        | (set(failed) & with_values - cut_short)
        | (set(failed) & set(succeeded))
    )
    listed_once = len(set(succeeded)) == len(succeeded) and len(failed) == len(
        result.extraction_completeness.failed_fields
    )
    if contradicted or not listed_once:
        names = ", ".join(sorted(contradicted)) or "a field that is listed twice"
        raise ExtractionRefused(
            "extraction_completeness_contradicted",
            f"succeeded_fields, failed_fields and values disagree about {names}",
            "extraction_completeness",
        )
