"""What a producer is told who asks for work that cannot be recorded."""

from typing import Literal

from kernel.errors import KernelError

Code = Literal[
    "work_queue_unknown",
    "work_request_invalid",
    "work_request_conflict",
    "work_request_unknown",
    "work_requests_too_many",
    "work_item_full",
]


class WorkRefused(KernelError):  # noqa: N818 - named for the answer, not the event
    """Nothing was recorded; `field` names what is wrong, empty where it is no field's fault."""

    def __init__(self, code: Code, message: str, field: str = "") -> None:
        super().__init__(message, code=code)
        self.field = field
