"""Defines the error of a rollback that is refused."""

from typing import Any

from kernel.values.errors import KernelError


class RollbackRefused(KernelError):
    """Nothing was undone; `details` names what stands in the way."""

    def __init__(self, code: str, message: str, **details: Any) -> None:
        super().__init__(message, code=code)
        self.details = details
