"""Logs people in by an OpenID provider: a code with PKCE, and an ID token that is checked.

1. A login begins with a state, a nonce and a verifier of 32 random bytes each, which the browser
   keeps (`LoginBegun`). The provider sends a code back, which is good for nothing without them.
2. The code is exchanged for an ID token here, at the provider, with the verifier.
3. The token counts where one of `ALGORITHMS` signs it under a key that the provider publishes, and
   `iss`, `aud` (with `azp`), `exp`, `iat` and `nonce` are what they have to be.
4. What the provider says is foreign: a document has `DOCUMENT_BYTES_MAX` bytes at most and comes
   within `ASKED_S_MAX`, and leads nowhere else. It names addresses of its own scheme alone.
5. Keys are kept, and asked for again where a token names one that is not among them, at most every
   `KEYS_EVERY_S`: a provider may change its keys, and a token with made-up names costs it little.

What roles a person has then is on the record (decision workers/0650).
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import anyio
import httpx
import orjson
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet

from kernel.records.access.errors import AccessRefused
from kernel.records.access.principals import principal_of
from workers.use_cases.provider_login import LoggedIn, LoginBegun, LoginFailed

ALGORITHMS: Final = ("RS256", "PS256", "ES256", "EdDSA", "Ed25519")
"""Asymmetric ones: with a shared secret or none, whoever reads the client's settings could sign."""

DOCUMENT_BYTES_MAX: Final = 256 << 10
ASKED_S_MAX: Final = 10.0
METADATA_S: Final = 3_600.0
AWAY_S: Final = 5.0
"""After which a provider that did not answer is asked again: who waits for it holds a place."""

KEYS_EVERY_S: Final = 60.0
LEEWAY_S: Final = 60
"""By how much the provider's clock may differ from ours."""

TOKEN_CHARS_MAX: Final = 32 << 10
CODE_CHARS_MAX: Final = 4_096
GROUPS_MAX: Final = 1_000
KEY_TYPES: Final = frozenset({"RSA", "EC", "OKP"})


@dataclass(frozen=True, slots=True)
class OpenIdSettings:
    """A provider, and what it knows us by."""

    issuer: str
    client_id: str
    client_secret: str | None
    redirect_url: str
    scopes: str
    name_claim: str
    groups_claim: str


def challenge_of(verifier: str) -> str:
    """Return what a provider is told of a verifier (RFC 7636, S256)."""
    return urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()


class OpenIdLogin:
    """Logs people in by one provider."""

    def __init__(
        self,
        settings: OpenIdSettings,
        now_us: Callable[[], int],
        *,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._settings = settings
        self._now_us = now_us
        self._transport = transport
        self._metadata: dict[str, Any] = {}
        self._metadata_until_s = self._away_until_s = 0.0
        self._reading = anyio.Lock()
        self._keys = KeySet([])
        self._keys_at_s: float | None = None

    async def address(self, begun: LoginBegun, redirect_url: str | None = None) -> str:
        """Return where a browser is sent to log in.

        Raises:
            LoginFailed: `login_provider_unavailable`.
        """
        endpoint = await self._endpoint("authorization_endpoint")
        query = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": redirect_url or self._settings.redirect_url,
            "scope": self._settings.scopes,
            "state": begun.state,
            "nonce": begun.nonce,
            "code_challenge": challenge_of(begun.verifier),
            "code_challenge_method": "S256",
        }
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"

    async def log_in(
        self, begun: LoginBegun, answer: Mapping[str, str], redirect_url: str | None = None
    ) -> LoggedIn:
        """Return who logged in, by what the provider sent the browser back with.

        Raises:
            LoginFailed: `login_refused`, `login_provider_unavailable`.
        """
        state = answer.get("state", "").encode()
        if not begun.state or not compare_digest(state, begun.state.encode()):
            raise _refusal("it was begun in another browser, or too long ago")
        if answer.get("iss", self._settings.issuer) != self._settings.issuer:
            raise _refusal("another provider answered")
        code = answer.get("code", "")
        if "error" in answer or not 0 < len(code) <= CODE_CHARS_MAX:
            raise _refusal("the provider did not log you in")
        token = await self._id_token(code, begun.verifier, redirect_url)
        return self._person(await self._claims(token, begun.nonce))

    async def _id_token(self, code: str, verifier: str, redirect_url: str | None) -> str:
        settings = self._settings
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "code_verifier": verifier,
            "redirect_uri": redirect_url or settings.redirect_url,
            "client_id": settings.client_id,
        }
        auth = None
        if settings.client_secret is not None:
            auth = httpx.BasicAuth(settings.client_id, settings.client_secret)
        endpoint = await self._endpoint("token_endpoint")
        document = await self._ask("POST", endpoint, data=form, auth=auth)
        token = document.get("id_token")
        if not isinstance(token, str) or len(token) > TOKEN_CHARS_MAX:
            raise _refusal("the provider answered with no ID token")
        return token

    async def _claims(self, token: str, nonce: str) -> dict[str, Any]:
        """Return what a token claims, once all of it was checked."""
        settings = self._settings
        registry = jwt.JWTClaimsRegistry(
            now=self._now_us() // 1_000_000,
            leeway=LEEWAY_S,
            iss={"essential": True, "value": settings.issuer},
            sub={"essential": True},
            aud={"essential": True, "value": settings.client_id},
            exp={"essential": True},
            iat={"essential": True},
            nonce={"essential": True, "value": nonce},
        )
        try:
            claims = (await self._decode(token)).claims
            registry.validate(claims)
        except (JoseError, ValueError, TypeError) as error:
            # What the token says is not repeated: the name of the error is the library's.
            raise _refusal(f"the ID token does not hold ({type(error).__name__})") from None
        audience = claims["aud"]
        is_for_more = isinstance(audience, list) and len(audience) > 1
        if claims.get("azp", None if is_for_more else settings.client_id) != settings.client_id:
            raise _refusal("the ID token is for another client")
        return dict(claims)

    async def _decode(self, token: str) -> jwt.Token:
        """Return a token whose signature holds; where it names an unknown key, by the newest."""
        if self._keys_at_s is None:
            await self._read_keys()
        try:
            return jwt.decode(token, self._keys, algorithms=ALGORITHMS)
        except InvalidKeyIdError:
            if self._keys_at_s is not None and self._now_s() < self._keys_at_s + KEYS_EVERY_S:
                raise
        await self._read_keys()
        return jwt.decode(token, self._keys, algorithms=ALGORITHMS)

    async def _read_keys(self) -> None:
        self._keys_at_s = self._now_s()
        document = await self._ask("GET", await self._endpoint("jwks_uri"))
        stated = document.get("keys")
        usable = [
            key
            for key in (stated if isinstance(stated, list) else ())
            if isinstance(key, dict)
            and key.get("kty") in KEY_TYPES
            and key.get("use", "sig") == "sig"
        ]
        try:
            self._keys = KeySet.import_key_set({"keys": usable})
        except (JoseError, ValueError, TypeError, KeyError):
            raise _unavailability("the provider publishes keys that cannot be read") from None

    async def _endpoint(self, name: str) -> str:
        """Return an address of the provider's, of its own scheme.

        Raises:
            LoginFailed: `login_provider_unavailable`.
        """
        issuer = self._settings.issuer
        async with self._reading:
            if self._now_s() < self._away_until_s:
                raise _unavailability("the provider did not answer a moment ago")
            if self._now_s() >= self._metadata_until_s:
                self._away_until_s = self._now_s() + AWAY_S
                self._metadata = await self._read_metadata()
                self._metadata_until_s, self._away_until_s = self._now_s() + METADATA_S, 0.0
        address = self._metadata.get(name)
        scheme = urlsplit(issuer).scheme
        if not isinstance(address, str) or not address.startswith(f"{scheme}://"):
            raise _unavailability(f"the provider names no {name} that can be used")
        return address

    async def _read_metadata(self) -> dict[str, Any]:
        issuer = self._settings.issuer
        url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
        document = await self._ask("GET", url)
        if document.get("issuer") != issuer:
            raise _unavailability("the provider goes by another name than ROTULUS_OIDC_ISSUER")
        return document

    async def _ask(self, method: str, url: str, **options: Any) -> dict[str, Any]:
        """Return the document with which the provider answers.

        Raises:
            LoginFailed: `login_refused` where it refuses what it is asked for;
                `login_provider_unavailable` for every other end.
        """
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        try:
            with anyio.fail_after(ASKED_S_MAX):
                async with (
                    httpx.AsyncClient(
                        transport=self._transport, trust_env=False, timeout=ASKED_S_MAX
                    ) as http,
                    http.stream(method, url, headers=headers, **options) as response,
                ):
                    body = await _whole(response)
            document = orjson.loads(body)
        except (TimeoutError, httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise _unavailability(
                f"the provider does not answer ({type(error).__name__})"
            ) from None
        if response.status_code == httpx.codes.BAD_REQUEST and method == "POST":
            raise _refusal("the provider refuses the code: it was used, or is too old")
        if response.status_code != httpx.codes.OK or not isinstance(document, dict):
            raise _unavailability(f"the provider answers with {response.status_code}")
        return document

    def _person(self, claims: Mapping[str, Any]) -> LoggedIn:
        name = f"person:{claims.get(self._settings.name_claim)}"
        if self._settings.name_claim == "email" and claims.get("email_verified") is not True:
            raise _refusal("the provider has not verified your address")
        try:
            principal_of(name)
        except AccessRefused:
            message = f"the claim {self._settings.name_claim} cannot be the name of a principal"
            raise _refusal(f"{message}; ROTULUS_OIDC_NAME_CLAIM names another") from None
        groups = claims.get(self._settings.groups_claim, ())
        listed = groups[:GROUPS_MAX] if isinstance(groups, list) else ()
        return LoggedIn(name, tuple(each for each in listed if isinstance(each, str)))

    def _now_s(self) -> float:
        return self._now_us() / 1_000_000


async def _whole(response: httpx.Response) -> bytes:
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise ValueError("encoded")
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > DOCUMENT_BYTES_MAX:
            raise ValueError("too long")
    return bytes(body)


def _refusal(message: str) -> LoginFailed:
    return LoginFailed("login_refused", message)


def _unavailability(message: str) -> LoginFailed:
    return LoginFailed("login_provider_unavailable", message)
