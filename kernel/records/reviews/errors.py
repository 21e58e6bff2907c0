"""Defines the error of a review that cannot be taken."""

from collections.abc import Mapping
from typing import Any, Literal

from kernel.values.errors import KernelError

Code = Literal[
    "batch_review_conflict",
    "batch_review_item_invalid",
    "batch_review_item_not_failed",
    "batch_review_item_repeated",
    "batch_review_not_recorded",
    "batch_review_too_large",
    "batch_review_unknown",
    "review_decided_meanwhile",
    "review_item_incomplete",
    "review_item_unknown",
]


class ReviewRefused(KernelError):
    """Nothing was recorded; `field` names what is wrong, empty where it is no field's fault."""

    def __init__(self, code: Code, message: str, field: str = "") -> None:
        super().__init__(message, code=code)
        self.field = field

    @property
    def details(self) -> Mapping[str, Any]:
        """Return what a program may want to know besides the code."""
        return {"field": self.field} if self.field else {}
