"""Asks a model behind an OpenAI-compatible HTTP interface (K16, §12.5).

1. The key goes into one header and nowhere else: no log, no message, no repr has it.
2. The words of a server are data: they are checked and cut to size before anybody uses it.
3. Nothing is unpacked: an answer is requested unencoded, and one that is encoded all the same is
   refused by its header (decision workers/0076).
4. A call ends when its time is over, however slowly the bytes of an answer come.
5. A server on this machine is local; every other is outside. A call says `store: false` and
   `Cache-Control: no-store`. There is no common way to forbid a server its prompt cache, so whether
   one was used is read from its usage report.
6. Nothing is tried again here: the caller, whose request is known by its key, may do that. The
   grammar goes along as the response format, and the answer is checked against it here.
"""

import ipaddress
from typing import Annotated, Any
from urllib.parse import urlsplit

import anyio
import httpx
import orjson
from pydantic import BaseModel, ConfigDict, Field, SecretStr, StringConstraints, ValidationError

from actors.errors import ModelError
from actors.synthesis.model_client import ANSWER_MAX_BYTES, LOCAL_PROVIDER, ModelAnswer, ModelCall
from kernel.model.numbers import Tokens

EXTERNAL_PROVIDER = "openai_compatible_api"
RESPONSE_MAX_BYTES = 4 * ANSWER_MAX_BYTES
CONNECT_TIMEOUT_S = 10.0

_HEADERS = {
    "Cache-Control": "no-store",
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "Content-Type": "application/json",
}
_CODE_OF_STATUS = {408: "model_timeout", 429: "model_unavailable"}

_TRANSPORT_ERRORS = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ValueError)
"""Errors of httpx, and errors that pass through it when a server does not speak HTTP."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Details(_Part):
    cached_tokens: Tokens | None = 0


class _Usage(_Part):
    prompt_tokens: Tokens = 0
    completion_tokens: Tokens = 0
    prompt_tokens_details: _Details | None = None


class _Message(_Part):
    content: str


class _Choice(_Part):
    message: _Message
    finish_reason: str | None = None


class _Completion(_Part):
    choices: Annotated[list[_Choice], Field(min_length=1, max_length=1, fail_fast=True)]
    model: Annotated[str, StringConstraints(min_length=1, max_length=400)] | None = None
    usage: _Usage | None = None


class HttpModel:
    """A client of one server and one model; close it when done."""

    def __init__(
        self,
        base_url: str,
        model: str,
        key: SecretStr | None,
        *,
        timeout_s: float,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        headers = dict(_HEADERS)
        if key is not None:
            headers["Authorization"] = f"Bearer {key.get_secret_value()}"
        self._model = model
        self._timeout_s = timeout_s
        self._external = not is_this_machine(base_url)
        self._http = httpx.AsyncClient(
            base_url=base_url,
            headers=headers,
            timeout=httpx.Timeout(timeout_s, connect=min(timeout_s, CONNECT_TIMEOUT_S)),
            transport=transport,
            trust_env=False,
            follow_redirects=False,
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    @property
    def external(self) -> bool:
        """Tell whether a prompt leaves this machine."""
        return self._external

    async def complete(self, call: ModelCall) -> ModelAnswer:
        """Put one call to the server.

        Raises:
            ModelError: `model_unavailable`, `model_timeout`, `model_refused`,
                `model_answer_too_large` or `model_answer_invalid`.
        """
        try:
            body = orjson.dumps(_request(self._model, call))
        except TypeError:
            raise ModelError("model_refused", "the prompt is not Unicode") from None
        try:
            with anyio.fail_after(self._timeout_s):
                content = await self._post(body)
        except (httpx.TimeoutException, TimeoutError):
            raise ModelError("model_timeout", "the model's server did not answer in time") from None
        except _TRANSPORT_ERRORS as error:
            # The error's own words may hold the address with what an operator wrote into it.
            problem = type(error).__name__
            raise ModelError("model_unavailable", f"the model's server: {problem}") from None
        return self._answer(content)

    async def _post(self, body: bytes) -> bytes:
        async with self._http.stream("POST", "chat/completions", content=body) as response:
            if response.status_code != 200:
                raise _refusal_of_status(response.status_code)
            if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
                raise ModelError("model_answer_invalid", "the answer has a content encoding")
            content = bytearray()
            async for chunk in response.aiter_raw():
                content += chunk
                if len(content) > RESPONSE_MAX_BYTES:
                    limit = f"more than {RESPONSE_MAX_BYTES} bytes"
                    raise ModelError("model_answer_too_large", limit)
            return bytes(content)

    def _answer(self, content: bytes) -> ModelAnswer:
        try:
            completion = _Completion.model_validate_json(content)
        except ValidationError:
            raise ModelError("model_answer_invalid", "not a chat completion") from None
        choice, usage = completion.choices[0], completion.usage or _Usage()
        if choice.finish_reason not in (None, "stop"):
            raise ModelError("model_answer_invalid", "the answer was cut off or withheld")
        details = usage.prompt_tokens_details
        cached = (details.cached_tokens or 0) if details else 0
        return ModelAnswer(
            text=choice.message.content,
            model_version=completion.model or self._model,
            model_provider=EXTERNAL_PROVIDER if self._external else LOCAL_PROVIDER,
            token_usage={
                "prompt_tokens": usage.prompt_tokens,
                "completion_tokens": usage.completion_tokens,
                "cached_tokens": cached,
            },
            tier_2_prompt_cache_used=self._external and cached > 0,
        )


def is_this_machine(url: str) -> bool:
    """Tell whether a URL names this machine by a loopback address or as localhost."""
    name = urlsplit(url).hostname or ""
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _request(model: str, call: ModelCall) -> dict[str, Any]:
    parameters = call.parameters
    system, user_text = call.prompt[: call.system_chars], call.prompt[call.system_chars :]
    messages = [{"role": "system", "content": system}] if system else []
    body: dict[str, Any] = {
        "model": model,
        "messages": [*messages, {"role": "user", "content": user_text}],
        "temperature": parameters.temperature,
        "top_p": parameters.top_p,
        "max_tokens": parameters.max_tokens,
        "n": 1,
        "stream": False,
        "store": False,
    }
    if parameters.grammar:
        # Whether the server holds to it or not, the answer is held against it (drafts.py).
        schema = {"name": "answer", "schema": parameters.grammar, "strict": False}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return body


def _refusal_of_status(status: int) -> ModelError:
    code = _CODE_OF_STATUS.get(status, "model_unavailable" if status >= 500 else "model_refused")
    return ModelError(code, f"the model's server answered {status}")
