"""Defines the error of a request for work that cannot be recorded."""

from collections.abc import Mapping
from typing import Any, Literal

from kernel.values.errors import KernelError

Code = Literal[
    "work_queue_unknown",
    "queue_unknown_priority",
    "work_request_invalid",
    "work_request_key_reserved",
    "work_tags_invalid",
    "work_request_conflict",
    "work_request_unknown",
    "work_request_not_dead",
    "work_request_not_cancellable",
    "work_requests_too_many",
    "work_item_full",
    "bulk_operation_unknown",
    "bulk_operations_too_many",
    "work_queues_too_many",
    "queue_registration_invalid",
]


class WorkRefused(KernelError):
    """Nothing was recorded; `field` names what is wrong, empty where it is no field's fault."""

    def __init__(self, code: Code, message: str, field: str = "") -> None:
        super().__init__(message, code=code)
        self.field = field
        self.index: int | None = None
        """The index in the call of the request that is to blame, where one is."""

    @property
    def details(self) -> Mapping[str, Any]:
        """Return what a program may want to know besides the code."""
        fields = {"field": self.field or None, "index": self.index}
        return {name: value for name, value in fields.items() if value is not None}
