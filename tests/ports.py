"""Ports that nobody listens on."""

import socket
from contextlib import ExitStack


def free_ports(number: int) -> list[int]:
    """Return so many ports of the loopback address, each another."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(number)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


def free_port() -> int:
    """Return a port of the loopback address."""
    [port] = free_ports(1)
    return port
