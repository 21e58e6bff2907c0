"""Defines the error of a change of access that cannot be recorded."""

from typing import Literal

from kernel.values.errors import KernelError

Code = Literal[
    "principal_invalid",
    "access_role_unknown",
    "access_scope_invalid",
    "access_clearance_unknown",
    "access_grant_unknown",
    "access_key_unknown",
    "access_keys_too_many",
    "access_grants_too_many",
    "access_owner_needed",
]


class AccessRefused(KernelError):
    """Nothing was recorded."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message, code=code)
