"""Answers requests that cannot be decoded with INVALID_ARGUMENT, whichever service they are for.

gRPC decodes a request before the service sees it, and logs a traceback when that fails. So this
module decodes it, and calls the service only with a decoded request; health is read the same way.
"""

import functools
from collections.abc import Callable
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError

CODE = "message_invalid"

_UNREADABLE: Final = object()


class ReadableRequests(grpc.ServerInterceptor):  # type: ignore[misc]  # grpc has no types
    """Stands before every method that takes one message."""

    def intercept_service(self, continuation: Callable[[Any], Any], call_details: Any) -> Any:
        """Return the method's handler with the reading taken out of gRPC's hands."""
        handler = continuation(call_details)
        if handler is None or handler.request_streaming:
            return handler
        return handler._replace(
            request_deserializer=_reading(handler.request_deserializer),
            unary_unary=_refusing(handler.unary_unary),
            unary_stream=_refusing(handler.unary_stream),
        )


def _reading(parse: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def read(content: bytes) -> Any:
        try:
            return parse(content)
        except (DecodeError, ValueError):
            return _UNREADABLE

    return read


def _refusing(method: Callable[..., Any] | None) -> Callable[..., Any] | None:
    if method is None:
        return None

    # What a method says of itself (that it does not block) is said of this as well.
    @functools.wraps(method)
    def refuse(request: Any, context: Any, *arguments: Any) -> Any:
        if request is _UNREADABLE:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{CODE}: not a message of the method")
        return method(request, context, *arguments)

    return refuse
