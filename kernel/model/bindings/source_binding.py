"""Defines a source binding: what it selects, makes of it, and may draw (§13.1, §15.3).

The meaning of a binding is the snapshot of its generation in force, and stands nowhere else. The
node of the binding says that it is there, that it is enabled, and what people call it; nothing
about that changes what fires (decision kernel/0271).
"""

from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from kernel.model.bindings.selectors import BindingRefused, SelectorList, read_selector_list
from kernel.model.problems import first_problem
from kernel.values.priorities import CapacityPriority

BindingTargetKind = Literal[
    "corpus_document_membership",
    "case_metadata_update",
    "relationship_candidate",
    "court_disposition_observation",
    "extraction_task",
]

PRIORITY_MAX = 1000

Text = Annotated[str, StringConstraints(min_length=1, max_length=512)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


_AnyPart = TypeVar("_AnyPart", bound=_Part)


class BindingResourcePolicy(_Part):
    """What a binding may draw, and what is done when there are too many (§14.1, §14.2)."""

    capacity_priority: CapacityPriority = "background"
    on_limit_exceeded: Literal["log_warning"] = "log_warning"
    schema_version: Literal[1] = 1


class CriticalApproval(_Part):
    """Who let a generation of a binding run as critical, and why (§14.3)."""

    approved_by: Text
    approver_role: Literal["user", "architect"]
    reason: Text


class _Meaning(_Part):
    """What a snapshot states beside its selectors."""

    target_kind: BindingTargetKind
    corpus_id: Text
    priority: Annotated[int, Field(ge=0, le=PRIORITY_MAX)] = 0
    resource_policy: BindingResourcePolicy = BindingResourcePolicy()
    schema_version: Literal[1] = 1


SELECTOR_LIST = "selector_list"


@dataclass(frozen=True, slots=True)
class SourceBinding:
    """A binding as one of its generations has it."""

    selectors: SelectorList
    target_kind: BindingTargetKind
    corpus_id: str
    priority: int
    """Of the bindings of an event, those of a higher priority are evaluated first (§14.1)."""

    resource_policy: BindingResourcePolicy

    @property
    def is_critical(self) -> bool:
        """Tell whether it runs without waiting for capacity."""
        return self.resource_policy.capacity_priority == "critical"


def read_source_binding(document: object) -> SourceBinding:
    """Return the binding that a snapshot states.

    Raises:
        BindingRefused: with the code, the place in the document, and what is wrong there.
    """
    if not isinstance(document, dict):
        raise BindingRefused("binding_invalid", "", "a snapshot is an object")
    try:
        selectors = read_selector_list(document.get(SELECTOR_LIST))
    except BindingRefused as refused:
        place = ".".join(filter(None, (SELECTOR_LIST, refused.field)))
        raise BindingRefused(refused.code, place, str(refused)) from None
    meaning = _read(_Meaning, document)
    return SourceBinding(
        selectors,
        meaning.target_kind,
        meaning.corpus_id,
        meaning.priority,
        meaning.resource_policy,
    )


def check_approval(binding: SourceBinding, document: object) -> None:
    """Check that a generation states an approval if, and only if, it runs as critical.

    Raises:
        BindingRefused: where it does not, and where an approval does not say who and why.
    """
    if binding.is_critical and document is None:
        message = "a critical binding states who approved of it"
        raise BindingRefused("binding_critical_approval_missing", "", message)
    if not binding.is_critical and document is not None:
        raise BindingRefused("binding_invalid", "", "what is not critical has no approval")
    if document is not None:
        _read(CriticalApproval, document)


def _read(model: type[_AnyPart], document: object) -> _AnyPart:
    try:
        return model.model_validate(document)
    except ValidationError as error:
        field, message = first_problem(error)
        raise BindingRefused("binding_invalid", field, message) from None
