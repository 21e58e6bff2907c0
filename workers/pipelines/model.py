"""The model that nodes ask: the one that the settings name, or the deterministic one."""

from collections.abc import Mapping
from typing import Any

import anyio
import anyio.from_thread
from anyio.lowlevel import EventLoopToken

from actors.errors import ModelError
from actors.synthesis.model_client import ModelAnswer, ModelCall, ModelClient, ModelParameters
from actors.synthesis.prompt import ISOLATION, PromptSource, assemble
from workers.pipelines.engine.step import ModelReply

SYSTEM = f"""\
You answer a question about one source.
{ISOLATION}
Answer with one JSON object of the grammar you were given and nothing else."""


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
