"""A model behind HTTP: what is sent, what is taken of the answer, and what never leaves."""

import json

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from actors.errors import ModelError
from actors.synthesis.local_model import LocalModel
from actors.synthesis.model_client import ModelCall, ModelParameters
from workers.environment.settings import Settings
from workers.gateway import wiring as gateway
from workers.models.openai_model import RESPONSE_MAX_BYTES, HttpModel, is_this_machine

pytestmark = [pytest.mark.anyio, pytest.mark.spec("K16")]

OUTSIDE = "https://models.example/v1/"
KEY = "sk-this-is-a-secret"
CALL = ModelCall(
    "Be careful.\n\nThe question.",
    ModelParameters(temperature=0.25, top_p=0.5, max_tokens=9, grammar={"type": "object"}),
    system_chars=len("Be careful."),
)


def completion(content="{}", **fields):
    return {"choices": [{"message": {"content": content}, "finish_reason": "stop"}], **fields}


class ModelServer:
    """Answers every request with what the test says, and keeps the requests."""

    def __init__(self, answer, status=200):
        self.requests = []
        self._answer, self._status = answer, status

    def __call__(self, request):
        self.requests.append(request)
        if isinstance(self._answer, Exception):
            raise self._answer
        known = isinstance(self._answer, bytes)
        content = self._answer if known else json.dumps(self._answer).encode()
        return httpx.Response(self._status, stream=httpx.ByteStream(content))


async def ask(server, url=OUTSIDE, key=KEY):
    transport = httpx.MockTransport(server)
    secret = None if key is None else SecretStr(key)
    model = HttpModel(url, "model-1", secret, timeout_s=5, transport=transport)
    try:
        return await model.complete(CALL)
    finally:
        await model.aclose()


async def test_the_prompt_and_every_parameter_are_sent_and_nothing_is_to_be_stored():
    server = ModelServer(completion())
    await ask(server)

    [request] = server.requests
    assert str(request.url) == "https://models.example/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["cache-control"] == "no-store"
    body = json.loads(request.content)
    assert body["messages"] == [
        {"role": "system", "content": "Be careful."},
        {"role": "user", "content": "\n\nThe question."},
    ]
    assert "".join(message["content"] for message in body["messages"]) == CALL.prompt
    assert (body["model"], body["temperature"], body["top_p"], body["max_tokens"]) == (
        "model-1",
        0.25,
        0.5,
        9,
    )
    assert body["store"] is False
    assert body["response_format"]["json_schema"]["schema"] == {"type": "object"}


async def test_without_a_key_none_is_sent():
    server = ModelServer(completion())
    await ask(server, key=None)

    assert "authorization" not in server.requests[0].headers


async def test_what_the_server_says_of_itself_is_in_the_answer():
    usage = {
        "prompt_tokens": 7,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 4},
    }
    answer = await ask(ModelServer(completion("words", model="model-1-2026", usage=usage)))

    assert answer.text == "words"
    assert (answer.model_version, answer.model_provider) == (
        "model-1-2026",
        "openai_compatible_api",
    )
    assert dict(answer.token_usage) == {
        "prompt_tokens": 7,
        "completion_tokens": 2,
        "cached_tokens": 4,
    }
    assert answer.tier_2_prompt_cache_used is True


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens_details": {"cached_tokens": None}}])
async def test_a_server_that_says_little_is_taken_at_the_name_it_was_asked_by(usage):
    answer = await ask(ModelServer(completion(usage=usage)))

    assert answer.model_version == "model-1"
    assert answer.tier_2_prompt_cache_used is False


@pytest.mark.spec("INV-B2-CACHING-1")
@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://127.0.0.1:11434/v1/", True),
        ("http://[::1]:8000/v1", True),
        ("http://localhost/v1", True),
        (OUTSIDE, False),
        ("http://127.0.0.1.example/v1", False),
        ("http://localhost.example/", False),
        ("http://10.0.0.1/", False),
        ("http://user@models.example/127.0.0.1", False),
        ("http://0.0.0.0/", False),
    ],
)
async def test_only_a_server_on_this_machine_is_local(url, local):
    usage = {"prompt_tokens_details": {"cached_tokens": 4}}
    answer = await ask(ModelServer(completion(usage=usage)), url)

    assert is_this_machine(url) is local
    assert (answer.model_provider == "local") is local
    assert answer.tier_2_prompt_cache_used is not local


FAILURES = {
    "refused": (ModelServer({"error": KEY}, 401), "model_refused"),
    "overloaded": (ModelServer(b"", 503), "model_unavailable"),
    "too many": (ModelServer(b"", 429), "model_unavailable"),
    "late": (ModelServer(b"", 408), "model_timeout"),
    "elsewhere": (ModelServer(b"", 307), "model_refused"),
    "away": (ModelServer(httpx.ConnectError(KEY)), "model_unavailable"),
    "slow": (ModelServer(httpx.ReadTimeout(KEY)), "model_timeout"),
    "no JSON": (ModelServer(b"<html>"), "model_answer_invalid"),
    "no choice": (ModelServer({"choices": []}), "model_answer_invalid"),
    "no words": (
        ModelServer({"choices": [{"message": {"content": None}}]}),
        "model_answer_invalid",
    ),
    "cut off": (
        ModelServer({"choices": [{"message": {"content": "{"}, "finish_reason": "length"}]}),
        "model_answer_invalid",
    ),
    "a name that is none": (ModelServer(completion(model="x" * 401)), "model_answer_invalid"),
    "counts that are none": (
        ModelServer(completion(usage={"prompt_tokens": -1})),
        "model_answer_invalid",
    ),
    "endless": (ModelServer(b" " * (RESPONSE_MAX_BYTES + 1)), "model_answer_too_large"),
}


@pytest.mark.parametrize("case", FAILURES)
async def test_every_failure_has_a_code_and_never_shows_the_key(case, caplog):
    caplog.set_level("DEBUG")
    server, code = FAILURES[case]
    with pytest.raises(ModelError) as failed:
        await ask(server)

    assert failed.value.code == code
    assert KEY not in f"{failed.value!r} {failed.value.details} {caplog.text}"
    assert len(server.requests) == 1, "nothing is tried again here"
    server.requests.clear()


@given(content=st.binary(max_size=200) | st.just(b'{"choices":[{"message":{"content":"x"}}]}'))
async def test_whatever_bytes_come_back_it_is_an_answer_or_a_coded_error(content):
    try:
        answer = await ask(ModelServer(content))
    except ModelError as error:
        assert error.code == "model_answer_invalid"  # noqa: PT017 - either way is right
    else:
        assert isinstance(answer.text, str)


def test_a_model_does_not_show_its_key():
    model = HttpModel(OUTSIDE, "model-1", SecretStr(KEY), timeout_s=5)

    assert KEY not in f"{model!r} {vars(model)}"


async def test_the_gateway_takes_the_model_of_its_settings():
    here = gateway.model_of(Settings())
    there = gateway.model_of(Settings(model_url="http://127.0.0.1:9/v1", model_name="model-1"))

    assert isinstance(here, LocalModel)
    assert isinstance(there, HttpModel)
    assert not there.external
    await there.aclose()
