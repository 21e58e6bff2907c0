"""Declares the methods of the contract on a channel and on a server, as `tee.proto` lists them."""

import hmac
from typing import Any

import grpc
from google.protobuf.message_factory import GetMessageClass

from workers.tee import tee_pb2 as wire

_SERVICE = wire.DESCRIPTOR.services_by_name["Tee"]


def authorization_of(token: str) -> str:
    """Return what a caller shows a Tee who knows the worker token; it gives the token away to none.

    A Tee may be somebody else's, and what it is shown opens no gateway.
    """
    return f"Bearer {hmac.new(token.encode(), b'rotulus tee', 'sha256').hexdigest()}"


def client_methods(channel: grpc.Channel) -> dict[str, Any]:
    """Return what calls each method, by its name."""
    return {
        method.name: channel.unary_unary(
            f"/{_SERVICE.full_name}/{method.name}",
            request_serializer=GetMessageClass(method.input_type).SerializeToString,
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )
        for method in _SERVICE.methods
    }


def serve_methods(servicer: object, server: grpc.Server) -> None:
    """Have a server call the servicer's method of the same name for each."""
    handlers = {
        method.name: grpc.unary_unary_rpc_method_handler(
            getattr(servicer, method.name),
            request_deserializer=GetMessageClass(method.input_type).FromString,
            response_serializer=GetMessageClass(method.output_type).SerializeToString,
        )
        for method in _SERVICE.methods
    }
    server.add_registered_method_handlers(_SERVICE.full_name, handlers)
