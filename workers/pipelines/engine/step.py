"""Defines the step of a node: what its function may ask for, and what is noted of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel

from kernel.landscape.canonical_types import Canonical, typed_data
from kernel.ledger.landscape_tables import CALL_TYPES
from kernel.values.foreign_code import call_foreign, cause_of, message_of
from workers.pipelines.engine.events import CallMade

T = TypeVar("T")
AnswerT = TypeVar("AnswerT", bound=BaseModel)

CALLS_MAX = 1000
"""Calls that a node makes for one token in one attempt."""


class RowRefused(Exception):
    """Raised by a node: trying this row again would change nothing."""


@dataclass(frozen=True, slots=True)
class ModelReply:
    """An answer of a model, with what a record says of the call."""

    text: str
    request: Mapping[str, Any]
    """The prompt and every parameter."""

    response: Mapping[str, Any]
    """The text of the answer, the model's version and what it used."""


class AskModel(Protocol):
    """Asks the model of this process; blocks the thread of the node."""

    def __call__(self, question: str, text: str, grammar: Mapping[str, Any]) -> ModelReply:
        """Return the answer to a question about a text, asked for in a grammar (JSON schema)."""


@dataclass(frozen=True, slots=True)
class WalkTools:
    """What functions and their times need of the process."""

    now_us: Callable[[], int]
    sleep_s: Callable[[float], None]
    ask_model: AskModel
    note_failure: Callable[[str, Exception], None] = lambda _, __: None
    """Called with a node's name and what ended an attempt of it, on the thread of the node."""

    call: Callable[..., Any] = call_foreign
    """Calls a function of the pipeline, as `call_foreign` does, and may bound its time."""


@dataclass(slots=True)
class NodeStep:
    """One attempt of a node at one token, as its function sees it."""

    run_id: str
    token_id: str
    """The same when the row is done again after a kill: what is done outside is known by it."""

    attempt: int
    _tools: WalkTools
    calls: list[CallMade] = field(default_factory=list)

    def call(self, call_type: str, request: Any, perform: Callable[[], T]) -> T:
        """Perform a call and record it with its request, its response or error, and its time.

        Args:
            call_type: llm, http, sql or filesystem.
            request: what is asked, as data.
            perform: asks it; what it returns is data and is returned.
        """
        if call_type not in CALL_TYPES:
            raise ValueError(f"a call is one of {', '.join(CALL_TYPES)}, not {call_type!r}")
        asked_for = Canonical(typed_data(request))
        started_us = self._tools.now_us()
        try:
            response = call_foreign(perform)
            content = Canonical(typed_data(response))
        except Exception as error:
            self._note(call_type, asked_for, None, error_content(error), started_us)
            raise
        self._note(call_type, asked_for, content, None, started_us)
        return response

    def ask_model(self, question: str, text: str, answer: type[AnswerT]) -> AnswerT:
        """Ask the model a question about a text, record the call, and return its answer.

        The text is data to the model, never an instruction. The answer is held against its type;
        one that is something else fails the attempt.
        """
        started_us = self._tools.now_us()
        grammar = _grammar_of(answer)
        asked_for = {"question": question, "text": text, "grammar": grammar}
        try:
            reply = self._tools.ask_model(question, text, grammar)
        except Exception as error:
            request = Canonical(typed_data(asked_for))
            self._note("llm", request, None, error_content(error), started_us)
            raise
        request = Canonical(typed_data(dict(reply.request)))
        response = Canonical(typed_data(dict(reply.response)))
        self._note("llm", request, response, None, started_us)
        return answer.model_validate_json(reply.text)

    def _note(
        self,
        call_type: str,
        request: Canonical,
        response: Canonical | None,
        error: Canonical | None,
        started_us: int,
    ) -> None:
        if len(self.calls) >= CALLS_MAX:
            raise RowRefused(f"more than {CALLS_MAX} calls")
        latency_us = max(0, self._tools.now_us() - started_us)
        self.calls.append(CallMade(call_type, request, response, error, latency_us))


def error_content(error: BaseException) -> Canonical:
    """Return what is recorded of an error: its type and its first 500 characters."""
    cause = cause_of(error)
    return Canonical(typed_data({"type": type(cause).__name__, "message": message_of(cause)}))


@lru_cache(maxsize=256)
def _grammar_of(answer: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of a type; making it takes as long as asking the local model."""
    return answer.model_json_schema()
