"""A model that says what the test wrote, and counts how often it was asked."""

import json
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from actors.synthesis.model_client import ModelAnswer, ModelCall
from actors.synthesis.synthesis import Synthesis
from kernel.ledger.ledger import Ledger
from tests.actors.harness import declare, running_sessions

SESSION = "s-1"


class ScriptedModel:
    """Answers in order; an answer may be a document, a text, an error, or made of the call."""

    def __init__(self, *answers: Any, external: bool = False, **facts: Any) -> None:
        self.external = external
        self.calls: list[ModelCall] = []
        self.before_answer: Callable[[], Awaitable[None]] | None = None
        self._answers = deque(answers)
        self._facts = {
            "model_version": "scripted-1",
            "model_provider": "openai_compatible_api" if external else "local",
            **facts,
        }

    async def complete(self, call: ModelCall) -> ModelAnswer:
        self.calls.append(call)
        if self.before_answer is not None:
            await self.before_answer()
        answer = self._answers.popleft()
        if callable(answer):
            answer = answer(call)
        if isinstance(answer, Exception):
            raise answer
        text = answer if isinstance(answer, str) else json.dumps(answer)
        return ModelAnswer(text, **self._facts)


def draft(*quotes: tuple[str, str], **changes: Any) -> dict[str, Any]:
    return {
        "intent_kind": "synthesize_cu",
        "title": "What was ordered",
        "text": "Both parties file.",
        "source_spans": [{"source": source, "quote": quote} for source, quote in quotes],
        **changes,
    }


NO_FINDING = {"intent_kind": "no_finding"}


@asynccontextmanager
async def running_synthesis(
    ledger: Ledger,
    model: Any,
    *,
    through: Callable[[Any], Any] = lambda sessions: sessions,
    **options: Any,
):
    """A synthesis over running sessions, of which one is declared; `through` wraps them."""
    async with running_sessions(ledger) as sessions:
        await sessions.ask(SESSION, declare("a", "b"))
        yield Synthesis(ledger, through(sessions), model, ledger.host, **options)
