"""Defines the refusals of a gateway, as its clients raise them."""

from collections.abc import Mapping
from typing import Any


class GatewayError(Exception):
    """The gateway refused, or could not be reached for too long.

    `code` is the gateway's own, or one of these:
        gateway_unreachable: nobody answered; it is not known whether the request took effect.
        gateway_failed: an answer that is no gateway's.
    """

    def __init__(
        self, code: str, message: str, status: int = 0, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status
        """The HTTP status; 0 where there was no answer."""

        self.details = dict(details or {})
        self.jobs: tuple[Any, ...] = ()
        """The jobs of a bulk that are on the record all the same, as the client returns them."""

    def __str__(self) -> str:
        """Return the message, with the field that is to blame where it leaves that out."""
        is_said = self.field in {"", "body"} or self.field in self.message
        return self.message if is_said else f"{self.field}: {self.message}"

    @property
    def field(self) -> str:
        """Return the field that is to blame, the first of several, "" where there is none."""
        match self.details:
            case {"field": field} | {"problems": [{"field": field}, *_]}:
                return str(field).removeprefix("body.")
        return ""

    @property
    def index(self) -> int | None:
        """Return the index of the request that is to blame, None where there is none."""
        index = self.details.get("index")
        return index if isinstance(index, int) else None


class JobLost(GatewayError):
    """The request was taken and is on the record no longer; asked for again, it is done again.

    The gateway's ledger went back, to a standby that lagged or a backup. The code is
    `work_request_lost`; the same key may be used again.
    """

    def __init__(self, request_id: str, error: GatewayError) -> None:
        message = f"{request_id} was taken and is on the record no longer; ask again under its key"
        super().__init__("work_request_lost", message, error.status, error.details)
