"""Lists the queues: what each takes, how urgent it may be, and to what its requests belong.

Three rows are part of Rotulus. A plug-in adds rows while its process starts, before anything is
asked for or worked on (decision kernel/0445), and a gateway those that workers have registered
(decision kernel/0670). A request on the record is read without the row of its queue, so a process
that lacks a plug-in verifies what others recorded.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Final

from pydantic import BaseModel

from kernel.authority.requests import AUTHORITY_QUEUE, CASCADE_QUEUE
from kernel.ledger.ledger import Request
from kernel.records.external import EXTERNAL_QUEUE
from kernel.values.foreign_code import call_foreign
from kernel.values.priorities import BUILT_IN_PRIORITIES, QueuePriority, admit_priorities
from kernel.work.content_schema import CONTENT_DIGEST, ContentSchema, SchemaContent
from kernel.work.contents import (
    BINDING_QUEUE,
    EXTRACTION_QUEUE,
    BindingEvaluation,
    ExtractionTask,
    ExtractionTransition,
)

NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
NAME_CHARS_MAX: Final = 64
PRIORITIES_MAX: Final = 5
QUEUES_MAX: Final = 64
"""Rows of the table, because each has metrics, a relay and a lease of its own."""

SERVICE_TARGET_S_MAX: Final = 7 * 24 * 3600
_RESERVED: Final = frozenset(
    {
        *(CASCADE_QUEUE, EXTERNAL_QUEUE, "implications"),
        *("arq", "crons", "gateways", "ledger", "progress", "workers"),
    }
)
"""Names of the runtime's own: of work that is no queue's, and of rooms beside those of queues in
Redis (`queues/redis/keys.py`)."""

"""What the record and its leases call other work."""


@dataclass(frozen=True, slots=True)
class QueueKind:
    """A queue's row of the table."""

    name: str
    content: type[BaseModel] | ContentSchema | None
    """What a request states: a model, or the schema that a worker has registered (decision
    kernel/0670); None where the record alone asks for the work."""

    item_key: str
    """The field that names what requests belong to: their event, their run."""

    priorities: tuple[QueuePriority, ...]
    """The most urgent first; at most five."""

    default_priority: str
    priority: str | None = None
    """The field that decides the priority; None where the producer states it."""

    contents_by_field: Mapping[str, type[BaseModel]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    """Contents of another form, each by a field that it alone has and has to have."""

    call: Callable[..., Any] = call_foreign
    """Calls the models of contents, as `call_foreign` does, and may bound their time."""

    @property
    def is_registered(self) -> bool:
        """Tell whether contents are checked by a schema that a worker has registered."""
        return isinstance(self.content, ContentSchema)

    def content_of(self, stated: Mapping[str, Any]) -> type[BaseModel] | ContentSchema:
        """Return the form that a stated content has."""
        named = (form for name, form in self.contents_by_field.items() if name in stated)
        form = next(named, self.content)
        assert form is not None, "a queue that nobody asks has no contents"  # noqa: S101 - for types
        return form

    def read(self, stated: Mapping[str, Any], canonical: bytes) -> BaseModel | SchemaContent:
        """Return a content in its form.

        Raises:
            ValidationError, ContentMisfit: it has not this form.
            Exception: whatever the model of a plug-in raises.
        """
        form = self.content_of(stated)
        if isinstance(form, ContentSchema):
            return form.read(stated)
        read: BaseModel = self.call(form.model_validate_json, canonical)
        return read

    def field_of(self, content: BaseModel | SchemaContent, name: str) -> Any:
        """Return a field of a content, which the model of a plug-in may compute."""
        if isinstance(content, SchemaContent):
            return content.field(name)
        return self.call(lambda: getattr(content, name))

    def has_priority(self, name: str) -> bool:
        """Tell whether a priority is one of the queue's."""
        return any(row.name == name for row in self.priorities)


_BUILT_IN: Final = (
    QueueKind(
        AUTHORITY_QUEUE,
        None,
        "target_cu_id",
        BUILT_IN_PRIORITIES[AUTHORITY_QUEUE],
        "background_normal",
    ),
    QueueKind(
        BINDING_QUEUE,
        BindingEvaluation,
        "source_event_id",
        BUILT_IN_PRIORITIES[BINDING_QUEUE],
        "background",
        priority="capacity_priority",
    ),
    QueueKind(
        EXTRACTION_QUEUE,
        ExtractionTransition,
        "extraction_run_id",
        BUILT_IN_PRIORITIES[EXTRACTION_QUEUE],
        "normal",
        contents_by_field=MappingProxyType({"source_ref": ExtractionTask}),
    ),
)

_kinds: dict[str, QueueKind] = {kind.name: kind for kind in _BUILT_IN}

QUEUE_KINDS: Final[Mapping[str, QueueKind]] = MappingProxyType(_kinds)
"""Every queue that this process knows, by name."""


def requestable_kind(queue: str) -> QueueKind | None:
    """Return the row of a queue of which work may be asked, None where there is none here."""
    kind = _kinds.get(queue)
    return None if kind is None or kind.content is None else kind


def is_requestable(queue: str) -> bool:
    """Tell whether requests of a queue are a producer's; those of one unknown here are."""
    kind = _kinds.get(queue)
    return queue not in _RESERVED if kind is None else kind.content is not None


def no_such_queue(name: str) -> str:
    """Return a sentence that says that no queue has this name, and which may be meant."""
    near = get_close_matches(name[:NAME_CHARS_MAX], _kinds, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(_kinds)}"
    return f"no queue is called {name!r}; {hint}"


def not_asked(queue: str) -> str:
    """Return a sentence that says why nobody may ask a queue for work."""
    if queue in _kinds:
        return f"nobody may ask {queue!r}: the record alone does"
    return no_such_queue(queue)


def is_built_in(queue: str) -> bool:
    """Tell whether a queue is part of Rotulus."""
    return queue in BUILT_IN_PRIORITIES


def register_queue(kind: QueueKind) -> None:
    """Add a row to the table of this process; a registered one takes the place of an older one.

    Raises:
        ValueError: the row cannot be used, or another has its name. Nothing was added.
    """
    check_queue(kind)
    known = _kinds.get(kind.name)
    if known is not None and not (known.is_registered and kind.is_registered):
        raise ValueError(f"there is a queue {kind.name!r} already")
    if known is None and len(_kinds) >= QUEUES_MAX:
        raise ValueError(f"a process has at most {QUEUES_MAX} queues")
    admit_priorities(kind.priorities)
    _kinds[kind.name] = kind


def forget_queue(name: str) -> None:
    """Take the row of a queue whose registration is gone out of the table of this process."""
    if name in _kinds and _kinds[name].is_registered:
        del _kinds[name]


def check_queue(kind: QueueKind) -> None:
    """Raise `ValueError` where a row cannot be used in any process."""
    if kind.name in _RESERVED:
        raise ValueError(f"{kind.name!r} is a name of the runtime's own")
    if not NAME.fullmatch(kind.name) or len(kind.name) > NAME_CHARS_MAX:
        message = f"a queue is called by lower-case words joined by hyphens, not {kind.name!r}"
        raise ValueError(message)
    if kind.content is None:
        raise ValueError("a queue states the model of its contents")
    for form in (kind.content, *kind.contents_by_field.values()):
        for name in filter(None, (kind.item_key, kind.priority)):
            if not _has_field(form, name):
                title = getattr(form, "__name__", f"the content of {kind.name}")
                raise ValueError(f"{title} has no field {name!r}")
    _check_priorities(kind)


def _has_field(form: type[BaseModel] | ContentSchema, name: str) -> bool:
    if isinstance(form, ContentSchema):
        return form.has_field(name)
    return name in form.model_fields or (name == CONTENT_DIGEST and hasattr(form, name))


def _check_priorities(kind: QueueKind) -> None:
    names = [row.name for row in kind.priorities]
    if not 1 <= len(names) <= PRIORITIES_MAX or len(set(names)) < len(names):
        raise ValueError(f"a queue has 1 to {PRIORITIES_MAX} priorities, each once")
    if kind.default_priority not in names:
        raise ValueError(f"no priority is called {kind.default_priority!r}")
    for row in kind.priorities:
        if not NAME.fullmatch(row.name.replace("_", "-")) or len(row.name) > NAME_CHARS_MAX:
            raise ValueError(f"a priority is called by lower-case words, not {row.name!r}")
        if not 1 <= row.service_target_s <= SERVICE_TARGET_S_MAX:
            message = f"a service target is 1 to {SERVICE_TARGET_S_MAX} seconds"
            raise ValueError(message)


def is_extraction_task(request: Request) -> bool:
    """Tell whether a request is for an extraction that a worker performs."""
    content = request.document["content"] if request.queue == EXTRACTION_QUEUE else {}
    return _kinds[EXTRACTION_QUEUE].content_of(content) is ExtractionTask
