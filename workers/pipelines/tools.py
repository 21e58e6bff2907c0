"""Makes what the functions of a pipeline need of their process, by its settings."""

import time
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import anyio
import anyio.from_thread
import structlog
from anyio.lowlevel import EventLoopToken, current_token

from actors.errors import ModelError
from actors.synthesis.model_client import ModelAnswer, ModelCall, ModelClient, ModelParameters
from actors.synthesis.prompt import ISOLATION, PromptSource, assemble
from kernel.values.foreign_code import cause_of, message_of, traceback_of
from workers.environment.foreign_threads import call_within
from workers.environment.settings import Settings
from workers.environment.system_host import system_host
from workers.pipelines.engine.step import ModelReply, RowRefused, WalkTools

KINDS_MAX: Final = 100
"""Kinds of failures that one process says."""

_log = structlog.get_logger(__name__)

SYSTEM = f"""\
You answer a question about one source.
{ISOLATION}
Answer with one JSON object of the grammar you were given and nothing else."""


def walk_tools(settings: Settings, client: ModelClient) -> WalkTools:
    """Return the tools of this process; functions ask the model on the event loop of the caller."""
    return WalkTools(
        system_host().now_us,
        time.sleep,
        PipelineModel(client, settings.model_timeout_s, current_token()),
        FailureLog().note,
        partial(call_within, settings.foreign_call_s_max),
    )


class FailureLog:
    """Says in the log where nodes fail; the record has every failure, without its place.

    A node that fails for one row fails for many, so each kind of error of a node is said once.
    """

    def __init__(self) -> None:
        self._known: set[tuple[str, type]] = set()

    def note(self, node: str, error: Exception) -> None:
        """Say where a node failed, if it is the first time that it does so."""
        if isinstance(error, RowRefused):  # says all that there is to say
            return
        cause = cause_of(error)
        kind = (node, type(cause))
        if kind in self._known or len(self._known) >= KINDS_MAX:
            return
        self._known.add(kind)
        _log.warning(
            "node_failed",
            node=node,
            error=f"{type(cause).__name__}: {message_of(cause)}",
            exception=traceback_of(error),
        )


class PipelineModel:
    """Asks a model from the thread of a node, which waits for the answer."""

    def __init__(
        self, client: ModelClient, timeout_s: float, loop: EventLoopToken | None = None
    ) -> None:
        """Ask the client on a loop; without one, on that of the AnyIO thread that calls."""
        self._client = client
        self._timeout_s = timeout_s
        self._loop = loop

    def __call__(self, question: str, text: str, grammar: Mapping[str, Any]) -> ModelReply:
        """Put one question about one text to the model.

        Raises:
            ModelError: it did not answer.
        """
        prompt = assemble(question, [PromptSource(text, {})], grammar=grammar, system=SYSTEM)
        parameters = ModelParameters(grammar=dict(grammar))
        call = ModelCall(prompt.text, parameters, prompt.system_chars)
        answer = anyio.from_thread.run(self._ask, call, token=self._loop)
        request = {"prompt": prompt.text, "parameters": parameters.model_dump(mode="json")}
        response = {
            "text": answer.text,
            "model_version": answer.model_version,
            "model_provider": answer.model_provider,
            "token_usage": dict(answer.token_usage),
        }
        return ModelReply(answer.text, request, response)

    async def _ask(self, call: ModelCall) -> ModelAnswer:
        try:
            with anyio.fail_after(self._timeout_s):
                return await self._client.complete(call)
        except TimeoutError:
            message = f"no answer in {self._timeout_s:g} s"
            raise ModelError("model_timeout", message) from None
