"""Calls a plug-in's model; its failures are coded errors of the caller (workers/0325)."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import anyio
import structlog
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from actors.errors import ModelError
from actors.synthesis.model_client import ModelAnswer, ModelCall, ModelClient
from kernel.model.model_output import USAGE_MAX, ModelName
from kernel.model.numbers import Tokens
from kernel.model.problems import first_problem
from kernel.values.foreign_code import cause_of
from workers.environment.foreign_calls import await_foreign

CLOSE_S_MAX: Final = 5.0

_log = structlog.get_logger(__name__)

_Measure = Annotated[str, StringConstraints(min_length=1, max_length=400)]


class _Answer(BaseModel):
    model_config = ConfigDict(strict=True)

    text: str
    model_version: ModelName
    model_provider: ModelName
    token_usage: Annotated[dict[_Measure, Tokens], Field(max_length=USAGE_MAX)]
    tier_2_prompt_cache_used: bool


class PluginModel:
    """Asks a foreign model; close it when done."""

    def __init__(self, model: ModelClient) -> None:
        self.external = model.external
        self._model = model

    async def complete(self, call: ModelCall) -> ModelAnswer:
        """Answer one call; the caller bounds its time and the length of the text.

        Raises:
            ModelError: it raised (`model_unavailable`), or answered with what no record takes.
        """
        try:
            answer: Any = await await_foreign("model", self._model.complete, call)
        except ModelError:
            raise
        except Exception as error:
            # Its text may quote the prompt, which is for no log: the kind of error has to do.
            kind = type(cause_of(error)).__name__
            raise ModelError("model_unavailable", f"it raised {kind}") from error
        return _check_answer(answer)

    async def aclose(self) -> None:
        """Have it close what it holds, if it has a method for that."""
        close = getattr(self._model, "aclose", None)
        if close is None:
            return
        with anyio.move_on_after(CLOSE_S_MAX):
            try:
                await await_foreign("model", close)
            except Exception as error:  # noqa: BLE001 - what is held ends with the process
                _log.warning("model_not_closed", error=type(cause_of(error)).__name__)


def _check_answer(answer: Any) -> ModelAnswer:
    if not isinstance(answer, ModelAnswer):
        kind = type(answer).__name__
        raise ModelError("model_answer_invalid", f"it answered a {kind}, no ModelAnswer")
    stated = {name: getattr(answer, name) for name in _Answer.model_fields}
    if isinstance(answer.token_usage, Mapping):
        stated["token_usage"] = dict(answer.token_usage)
    try:
        return ModelAnswer(**dict(_Answer.model_validate(stated)))
    except ValidationError as error:
        problem = ": ".join(first_problem(error))
        raise ModelError("model_answer_invalid", problem) from None
