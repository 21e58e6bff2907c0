"""Issues and checks confirmation tokens: the right role has seen what would happen (K17).

A token is signed with its role's key and bound to tier, scope and the digest of the operations in
scope, so it confirms one plan and no other. It expires, and its id becomes part of the operation
that it confirms, so it works once. There is no default key: a role without one confirms nothing.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import orjson

from kernel.rollback.errors import RollbackRefused
from kernel.values.canonical import canonicalize

Role = Literal["user", "architect"]

LIFETIME_S = 900
REBUILD_TIER = 3
KEY_BYTES_MIN = 32
TOKEN_CHARS_MAX = 2048

_DOMAIN = b"rotulus/confirmation/v1\x00"


@dataclass(frozen=True, slots=True)
class Confirmable:
    """A plan that can be confirmed."""

    tier: int
    scope: str
    digest: str


class Confirmations:
    """Issues and checks tokens with one key for each role."""

    def __init__(self, keys: Mapping[Role, bytes]) -> None:
        """Hold the keys.

        Raises:
            ValueError: when a key is too short, or two roles share one.
        """
        if any(len(key) < KEY_BYTES_MIN for key in keys.values()):
            raise ValueError(f"a confirmation key has at least {KEY_BYTES_MIN} bytes")
        if len(set(keys.values())) != len(keys):
            raise ValueError("each role has a key of its own")
        self._keys = dict(keys)

    def issue(self, role: Role, subject: Confirmable, *, confirmation_id: str, now_us: int) -> str:
        """Return a token that confirms one plan once, until LIFETIME_S from now."""
        claims = {
            "confirmation_id": confirmation_id,
            "tier": subject.tier,
            "scope": subject.scope,
            "digest": subject.digest,
            "expires_at_us": now_us + LIFETIME_S * 1_000_000,
        }
        content = canonicalize(claims)
        return f"{_text(content)}.{_text(self._sign(role, content))}"

    def check(self, role: Role, token: str | None, subject: Confirmable, *, now_us: int) -> str:
        """Return the confirmation's id when it confirms this plan.

        Raises:
            RollbackRefused: `confirmation_required`, which for a rebuild is
                `tier_3_requires_architect`; `confirmation_invalid` (also for another role's
                token), `confirmation_expired` or `confirmation_of_something_else`.
        """
        if token is None:
            raise RollbackRefused(
                "tier_3_requires_architect"
                if subject.tier == REBUILD_TIER
                else "confirmation_required",
                f"the {role} has to confirm this",
                role=role,
                tier=subject.tier,
                scope=subject.scope,
                digest=subject.digest,
            )
        content = self._open_token(role, token)
        claims = orjson.loads(content)
        if claims["expires_at_us"] <= now_us:
            raise RollbackRefused("confirmation_expired", "the token has expired")
        if (claims["tier"], claims["scope"], claims["digest"]) != (
            subject.tier,
            subject.scope,
            subject.digest,
        ):
            raise RollbackRefused(
                "confirmation_of_something_else",
                "the token confirms another plan; look again at what would happen",
                digest=subject.digest,
            )
        return str(claims["confirmation_id"])

    def _open_token(self, role: Role, token: str) -> bytes:
        content, _, signature = token[:TOKEN_CHARS_MAX].partition(".")
        try:
            opened, stated = _bytes(content), _bytes(signature)
        except (ValueError, binascii.Error):
            raise RollbackRefused("confirmation_invalid", "not a confirmation token") from None
        if not hmac.compare_digest(stated, self._sign(role, opened)):
            raise RollbackRefused(
                "confirmation_invalid", f"not a token that the {role}'s key has signed"
            )
        return opened

    def _sign(self, role: Role, content: bytes) -> bytes:
        key = self._keys.get(role)
        if key is None:
            raise RollbackRefused(
                "confirmation_not_configured", f"there is no key for the {role}'s word", role=role
            )
        return hmac.new(key, _DOMAIN + role.encode() + b"\x00" + content, hashlib.sha256).digest()


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
