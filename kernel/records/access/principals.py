"""Names principals: who asks, by kind and id, as `person:ada`."""

import re
from dataclasses import dataclass
from typing import Final

from kernel.records.access.errors import AccessRefused

GROUP: Final = "group"
"""Whoever an OpenID provider says to be in it: it is granted roles, and has no keys."""

PRINCIPAL_KINDS: Final = ("person", "service", "worker", "gateway", "auditor", GROUP)
PRINCIPAL_CHARS_MAX: Final = 128
_ID: Final = "[A-Za-z0-9][A-Za-z0-9._@+-]*"
PRINCIPAL: Final = rf"({'|'.join(PRINCIPAL_KINDS)}):{_ID}"
"""The pattern of a principal's name."""

KEY_HOLDER: Final = rf"({'|'.join(kind for kind in PRINCIPAL_KINDS if kind != GROUP)}):{_ID}"
"""The pattern of the name of a principal that may have keys."""

_PRINCIPAL: Final = re.compile(PRINCIPAL)


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks."""

    kind: str
    id: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.id}"


def principal_of(text: str) -> Principal:
    """Return the principal of this name.

    Raises:
        AccessRefused: `principal_invalid`.
    """
    if len(text) > PRINCIPAL_CHARS_MAX or _PRINCIPAL.fullmatch(text) is None:
        kinds = ", ".join(f"{kind}:" for kind in PRINCIPAL_KINDS)
        raise AccessRefused(
            "principal_invalid",
            f"a principal is one of {kinds} and an id of letters, digits and . _ @ + -,"
            f" {PRINCIPAL_CHARS_MAX} characters in all, such as person:ada",
        )
    kind, _, name = text.partition(":")
    return Principal(kind, name)
