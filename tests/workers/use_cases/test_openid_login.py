"""Who is logged in by what a provider says, and who is not."""

import base64
import hmac
import json
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import anyio
import httpx
import pytest
from joserfc.jwk import RSAKey

from tests.workers.api.openid_provider import (
    CLIENT,
    ISSUER,
    KEY,
    OTHER_KEY,
    SETTINGS,
    FakeProvider,
    signed,
)
from workers.use_cases import openid_login
from workers.use_cases.openid_login import OpenIdLogin
from workers.use_cases.provider_login import NOT_BEGUN, LoggedIn, LoginFailed, new_login

pytestmark = pytest.mark.anyio


class Clock:
    now_s = 1_800_000_000


@pytest.fixture
def provider() -> FakeProvider:
    return FakeProvider(lambda: Clock.now_s)


async def logged_in(provider: FakeProvider, login: OpenIdLogin | None = None) -> LoggedIn:
    login, begun = login or provider.login(), new_login(os.urandom)
    return await login.log_in(begun, provider.authorize(await login.address(begun)))


async def code_of(provider: FakeProvider, login: OpenIdLogin | None = None) -> str:
    with pytest.raises(LoginFailed) as failed:
        await logged_in(provider, login)
    return failed.value.code


async def test_who_the_provider_says_it_is_is_logged_in_with_their_groups(provider: FakeProvider):
    assert await logged_in(provider) == LoggedIn("person:ada", ("auditors",))


def encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def head_and_claims(claims: dict[str, Any], **header: str) -> str:
    return ".".join(encoded(json.dumps(each).encode()) for each in (header, claims))


def unsigned(claims: dict[str, Any]) -> str:
    return head_and_claims(claims, alg="none") + "."


def by_the_public_key(claims: dict[str, Any]) -> str:
    """Signed as if the key that everybody knows were a shared secret."""
    text = head_and_claims(claims, alg="HS256", kid="k1")
    mac = hmac.digest(KEY.as_pem(private=False), text.encode(), "sha256")
    return f"{text}.{encoded(mac)}"


HOSTILE: dict[str, Callable[[dict[str, Any]], str]] = {
    "of another issuer": lambda claims: signed(claims | {"iss": "https://evil.example"}),
    "for another client": lambda claims: signed(claims | {"aud": "other"}),
    "for several, none of which asked": lambda claims: signed(claims | {"aud": ["a", "b"]}),
    "for several without who asked": lambda claims: signed(claims | {"aud": [CLIENT, "b"]}),
    "asked for by another": lambda claims: signed(claims | {"azp": "other"}),
    "asked for by another, in a list": lambda claims: signed(
        claims | {"aud": [CLIENT], "azp": "other"}
    ),
    "of another login": lambda claims: signed(claims | {"nonce": "other"}),
    "without a nonce": lambda claims: signed({**claims, "nonce": None}),
    "expired": lambda claims: signed(claims | {"exp": Clock.now_s - 61}),
    "without an end": lambda claims: signed({k: v for k, v in claims.items() if k != "exp"}),
    "of the future": lambda claims: signed(claims | {"iat": Clock.now_s + 61}),
    "not yet": lambda claims: signed(claims | {"nbf": Clock.now_s + 61}),
    "without a subject": lambda claims: signed({k: v for k, v in claims.items() if k != "sub"}),
    "unsigned": unsigned,
    "signed by another key of the name": lambda claims: signed(claims, OTHER_KEY),
    "signed by the public key": by_the_public_key,
    "signed by a key that nobody publishes": lambda claims: signed(
        claims, RSAKey.generate_key(2048, {"kid": "k2"})
    ),
    "with one character changed": lambda claims: signed(claims)[:-8] + "AAAAAAAA",
    "no token": lambda _: "x.y.z",
    "nothing": lambda _: "",
    "too long": lambda claims: signed(claims | {"x": "x" * openid_login.TOKEN_CHARS_MAX}),
    "of a name that is none": lambda claims: signed(claims | {"sub": "a b\nc"}),
    "of no name": lambda claims: signed(claims | {"sub": ""}),
}


@pytest.mark.parametrize("kind", HOSTILE)
async def test_a_token_that_is_not_for_this_login_logs_nobody_in(provider: FakeProvider, kind: str):
    provider.token = HOSTILE[kind]
    assert await code_of(provider) == "login_refused"


async def test_a_code_counts_once_and_for_the_login_that_it_answers_alone(provider: FakeProvider):
    login, begun = provider.login(), new_login(os.urandom)
    answer = provider.authorize(await login.address(begun))
    for wrong in (
        answer | {"state": new_login(os.urandom).state},
        {"code": answer["code"]},
        answer | {"iss": "https://evil.example"},
        {"state": begun.state, "error": "access_denied"},
        answer | {"code": ""},
    ):
        with pytest.raises(LoginFailed) as failed:
            await login.log_in(begun, wrong)
        assert failed.value.code == "login_refused"
    assert "/token" not in provider.asked
    stolen = replace(new_login(os.urandom), state=begun.state, nonce=begun.nonce)
    for verifier_of in (stolen, begun, begun):
        with pytest.raises(LoginFailed) as failed:
            await login.log_in(verifier_of, answer)
        assert failed.value.code == "login_refused"
    fresh = provider.authorize(await login.address(begun))
    assert (await login.log_in(begun, fresh)).principal == "person:ada"
    with pytest.raises(LoginFailed):
        await login.log_in(begun, fresh)


async def test_a_browser_that_began_nothing_is_answered_by_nothing(provider: FakeProvider):
    for answer in ({}, {"state": "", "code": "x"}):
        with pytest.raises(LoginFailed):
            await provider.login().log_in(NOT_BEGUN, answer)
    assert provider.asked == []


async def test_an_address_that_nobody_verified_names_nobody(provider: FakeProvider):
    login = provider.login(replace(SETTINGS, name_claim="email"))
    provider.claims = {"sub": "1", "email": "ada@example.org"}
    assert await code_of(provider, login) == "login_refused"
    provider.claims["email_verified"] = True
    assert (await logged_in(provider, login)).principal == "person:ada@example.org"


async def test_a_new_key_counts_at_once_and_made_up_names_of_keys_cost_one_question_a_minute(
    provider: FakeProvider,
):
    login = provider.login()
    await logged_in(provider, login)
    new_key = RSAKey.generate_key(2048, {"kid": "k9", "use": "sig"})
    provider.token = lambda claims: signed(claims, new_key)
    for _ in range(3):
        assert await code_of(provider, login) == "login_refused"
    assert provider.asked.count("/jwks") == 1
    Clock.now_s += 61
    provider.keys = [new_key]
    assert (await logged_in(provider, login)).principal == "person:ada"
    assert provider.asked.count("/jwks") == 2
    assert provider.asked.count("/.well-known/openid-configuration") == 1


def failing() -> httpx.Response:
    raise httpx.ConnectError("nobody")


ILL: dict[str, tuple[str, Callable[[], httpx.Response]]] = {
    "away": ("/.well-known/openid-configuration", failing),
    "of another name": (
        "/.well-known/openid-configuration",
        lambda: httpx.Response(200, json={"issuer": "https://evil.example"}),
    ),
    "in the clear": (
        "/.well-known/openid-configuration",
        lambda: httpx.Response(
            200, json={"issuer": ISSUER, "authorization_endpoint": "http://provider.example/"}
        ),
    ),
    "elsewhere": (
        "/token",
        lambda: httpx.Response(302, headers={"Location": "https://evil.example"}),
    ),
    "no JSON": ("/token", lambda: httpx.Response(200, content=b"<html>")),
    "no object": ("/token", lambda: httpx.Response(200, content=b"[]")),
    "endless": ("/token", lambda: httpx.Response(200, content=b" " * (300 << 10))),
    "failing": ("/token", lambda: httpx.Response(500, json={})),
    "without keys": ("/jwks", lambda: httpx.Response(200, json={"keys": [{"kty": "RSA"}]})),
}


@pytest.mark.parametrize("kind", ILL)
async def test_a_provider_that_is_ill_logs_nobody_in_and_is_said_to_be(
    provider: FakeProvider, kind: str
):
    path, reply = ILL[kind]
    provider.replies[path] = reply
    assert await code_of(provider) == "login_provider_unavailable"


async def test_a_provider_that_says_nothing_holds_nobody_for_long(
    provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
):
    class Silent(httpx.AsyncBaseTransport):
        async def handle_async_request(self, _: httpx.Request) -> httpx.Response:
            await anyio.sleep_forever()
            raise AssertionError

    monkeypatch.setattr(openid_login, "ASKED_S_MAX", 0.01)
    login = OpenIdLogin(SETTINGS, lambda: 1, transport=Silent())
    with pytest.raises(LoginFailed) as failed:
        await login.address(new_login(os.urandom))
    assert failed.value.code == "login_provider_unavailable"
