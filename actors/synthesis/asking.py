"""Asks one question of a model within its time, and captures it as it will be recorded (§6.4)."""

from collections.abc import Callable, Sequence

import anyio

from actors.errors import ModelError
from actors.synthesis.disclosure import check_cache
from actors.synthesis.model_client import (
    ANSWER_MAX_BYTES,
    ModelAnswer,
    ModelCall,
    ModelClient,
    ModelParameters,
)
from actors.synthesis.prompt import AssembledPrompt
from kernel.model.model_output import CapturedOutput
from kernel.values.host import iso_time

CALL_TIMEOUT_S = 120.0


async def ask_model(
    client: ModelClient,
    prompt: AssembledPrompt,
    parameters: ModelParameters,
    *,
    source_refs: Sequence[str],
    now_us: Callable[[], int],
    timeout_s: float,
) -> CapturedOutput:
    """Put a prompt to a model and return its answer as a record will hold it.

    Raises:
        ModelError: it did not answer in time, or with what no record takes; nothing was written.
    """
    call = ModelCall(prompt.text, parameters, prompt.system_chars)
    answer = await _complete(client, call, timeout_s)
    check_cache(answer, caching=parameters.prompt_caching)
    return CapturedOutput(
        answer=answer.text.encode(),
        model_version=answer.model_version,
        model_provider=answer.model_provider,
        prompt_hash=prompt.hash,
        parameter_hash=parameters.hash(),
        source_refs=tuple(source_refs),
        answered_at=iso_time(now_us()),
        tier_2_prompt_cache_used=answer.tier_2_prompt_cache_used,
        token_usage=dict(answer.token_usage),
    )


async def _complete(client: ModelClient, call: ModelCall, timeout_s: float) -> ModelAnswer:
    try:
        with anyio.fail_after(timeout_s):
            answer = await client.complete(call)
    except TimeoutError:
        raise ModelError("model_timeout", f"no answer in {timeout_s:g} s") from None
    try:
        size = len(answer.text.encode())
    except UnicodeEncodeError:
        raise ModelError("model_answer_invalid", "the answer is not Unicode") from None
    if size > ANSWER_MAX_BYTES:
        raise ModelError("model_answer_too_large", f"more than {ANSWER_MAX_BYTES} bytes")
    return answer
