"""Counts connections that shake hands among those that a gateway may have.

A server of asyncio makes the protocol of a connection when it is accepted, and tells it of the
connection when TLS stands, within a minute, or never. uvicorn counts from then on alone, so whoever
opens connections and says nothing would not be counted. Here a connection counts once it is
accepted; where there are as many as may be, the next one ends as soon as its handshake has.
"""

import asyncio
from collections.abc import Callable
from typing import Any, cast
from weakref import WeakSet

Make = Callable[..., asyncio.Protocol]


def count_handshakes(make: Make, limit: int) -> Make:
    """Return a factory of protocols that become those of `make` once TLS stands."""
    shaking: WeakSet[_Shaking] = WeakSet()

    def make_shaking(*, server_state: Any, **options: Any) -> asyncio.Protocol:
        is_full = len(shaking) + len(server_state.connections) >= limit
        waiting = _Shaking(shaking, lambda: make(server_state=server_state, **options))
        waiting.is_too_many = is_full
        shaking.add(waiting)
        return waiting

    return make_shaking


class _Shaking(asyncio.Protocol):
    """What a connection is until TLS stands.

    Of a handshake that fails uvloop says so; asyncio's own loop forgets it with its garbage.
    """

    is_too_many = False

    def __init__(self, shaking: "WeakSet[_Shaking]", make: Callable[[], asyncio.Protocol]) -> None:
        self._shaking = shaking
        self._make = make

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._shaking.discard(self)
        stream = cast("asyncio.Transport", transport)
        if self.is_too_many:
            stream.abort()
            return
        made = self._make()
        stream.set_protocol(made)
        made.connection_made(stream)

    def connection_lost(self, _: Exception | None) -> None:
        self._shaking.discard(self)
