"""An OpenID provider of the tests, in this process: it issues codes, and tokens of any kind."""

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
from joserfc import jwt
from joserfc.jwk import RSAKey

from workers.use_cases.openid_login import OpenIdLogin, OpenIdSettings, challenge_of

ISSUER = "https://provider.example"
CLIENT = "rotulus"
REDIRECT = "http://127.0.0.1:8440/login/provider/answer"
SETTINGS = OpenIdSettings(ISSUER, CLIENT, "the secret", REDIRECT, "openid groups", "sub", "groups")
KEY = RSAKey.generate_key(2048, {"kid": "k1", "use": "sig"})
OTHER_KEY = RSAKey.generate_key(2048, {"kid": "k1", "use": "sig"})


def signed(claims: Mapping[str, Any], key: Any = KEY, **header: Any) -> str:
    stated = {"alg": "RS256", "kid": key.kid} | header
    return jwt.encode(stated, dict(claims), key, algorithms=[stated["alg"]])


@dataclass
class FakeProvider:
    """Answers as a provider does that requires PKCE; a test changes what it says."""

    now_s: Callable[[], int]
    token: Callable[[dict[str, Any]], str] = signed
    """Makes the ID token of what it claims."""

    claims: dict[str, Any] = field(default_factory=lambda: {"sub": "ada", "groups": ["auditors"]})
    keys: list[Any] = field(default_factory=lambda: [KEY])
    replies: dict[str, Callable[[], httpx.Response]] = field(default_factory=dict)
    """What is answered at a path in place of what a provider answers."""

    asked: list[str] = field(default_factory=list)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def login(self, settings: OpenIdSettings = SETTINGS) -> OpenIdLogin:
        return OpenIdLogin(
            settings, lambda: self.now_s() * 1_000_000, transport=httpx.MockTransport(self.answer)
        )

    def authorize(self, address: str) -> dict[str, str]:
        """Log somebody in, and return with what the browser is sent back."""
        query = dict(parse_qsl(urlsplit(address).query))
        assert query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe()
        self.codes[code] = query
        return {"code": code, "state": query["state"], "iss": ISSUER}

    def answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        self.asked.append(path)
        if path in self.replies:
            return self.replies[path]()
        if path == "/.well-known/openid-configuration":
            places = {
                "authorization_endpoint": "/authorize",
                "token_endpoint": "/token",
                "jwks_uri": "/jwks",
            }
            document = {name: ISSUER + place for name, place in places.items()}
            return httpx.Response(200, json={"issuer": ISSUER, **document})
        if path == "/jwks":
            return httpx.Response(
                200, json={"keys": [key.as_dict(private=False) for key in self.keys]}
            )
        return self._exchange(request)

    def _exchange(self, request: httpx.Request) -> httpx.Response:
        form = dict(parse_qsl(request.content.decode()))
        query = self.codes.pop(form["code"], None)
        fits = query is not None and (
            challenge_of(form["code_verifier"]) == query["code_challenge"]
            and form["redirect_uri"] == query["redirect_uri"]
            and request.headers["authorization"] == _BASIC
        )
        if query is None or not fits:
            return httpx.Response(400, json={"error": "invalid_grant"})
        now_s = self.now_s()
        claims = {
            "iss": ISSUER,
            "aud": CLIENT,
            "iat": now_s,
            "exp": now_s + 300,
            "nonce": query["nonce"],
            **self.claims,
        }
        return httpx.Response(200, content=json.dumps({"id_token": self.token(claims)}))


_BASIC = next(
    httpx.BasicAuth(CLIENT, "the secret").auth_flow(httpx.Request("GET", ISSUER))
).headers["authorization"]
