"""Binds the sockets at which processes listen: once, also on behalf of a child.

A parent that binds for its child keeps the port for as long as it lives (decision workers/0080). So
no other program ever answers there, not even while the child is dead: only the two of them hold the
socket. Connections that come meanwhile wait until the child is there again.
"""

import os
import socket
from typing import ClassVar

LISTENING_FD = "ROTULUS_LISTENING_FD"
"""Not a setting: a parent names the socket by it that it hands to its child."""

BACKLOG = 2048
"""Connections that the system may hold until they are taken; it may allow fewer."""


class AddressUnusableError(Exception):
    """Says that an address cannot be had, and which variable names another one."""

    code: ClassVar[str] = "address_unusable"

    def __init__(self, host: str, port: int, reason: str, variable: str) -> None:
        super().__init__(
            f"{host}:{port}: {reason}; stop who uses it, or name another port by {variable}"
        )


def listen(host: str, port: int, variable: str = "ROTULUS_PORT") -> socket.socket:
    """Bind an address and listen; port 0 is any free one, `variable` is what the port came from.

    Raises:
        AddressUnusableError: it is not ours, or somebody else listens there.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Said by name, because asyncio turns Nagle's algorithm off for what is TCP by name alone.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        # At once: until somebody listens, others may bind the same.
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        reason = error.strerror or str(error)
        raise AddressUnusableError(host, port, reason, variable) from None
    return listening


def port_of(listening: socket.socket) -> int:
    """Return the port at which a socket listens."""
    port: int = listening.getsockname()[1]
    return port


def take_listening() -> socket.socket | None:
    """Return the socket that the parent has handed over, once; None where it handed none over."""
    text = os.environ.pop(LISTENING_FD, "")
    return socket.socket(fileno=int(text)) if text.isdecimal() else None
