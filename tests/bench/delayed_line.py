"""A line to a server's socket on which each byte takes a while, in a process of its own.

    python -m tests.bench.delayed_line SOCKET OF_SERVER MS

What a line of a real network adds is its length and not its width: bytes that are sent while others
are on their way come behind them, as long after they were sent.
"""

import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_READ_BYTES = 1 << 18


@contextmanager
def delayed_line(folder: Path, of_server: Path, one_way_ms: float) -> Iterator[None]:
    """Hold a line whose socket is in a folder, by the name that the server's has."""
    command = [sys.executable, "-m", "tests.bench.delayed_line", str(folder / of_server.name)]
    line = subprocess.Popen([*command, str(of_server), str(one_way_ms)], stdout=subprocess.PIPE)
    try:
        assert line.stdout is not None
        line.stdout.readline()
        yield
    finally:
        line.kill()
        line.communicate()


def _carry(source: socket.socket, target: socket.socket, delay_s: float) -> None:
    on_the_way: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()

    def deliver() -> None:
        with suppress(OSError):
            while True:
                due_s, data = on_the_way.get()
                time.sleep(max(0.0, due_s - time.monotonic()))
                if not data:
                    target.shutdown(socket.SHUT_WR)
                    return
                target.sendall(data)

    threading.Thread(target=deliver, daemon=True).start()
    data = b"-"
    while data:
        try:
            data = source.recv(_READ_BYTES)
        except OSError:
            data = b""
        on_the_way.put((time.monotonic() + delay_s, data))


def main() -> None:
    own, of_server, one_way_ms = sys.argv[1:]
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(own)
        door.listen()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            client, _ = door.accept()
            server = socket.socket(socket.AF_UNIX)
            server.connect(of_server)
            for ends in ((client, server), (server, client)):
                arguments = (*ends, float(one_way_ms) / 1000)
                threading.Thread(target=_carry, args=arguments, daemon=True).start()


if __name__ == "__main__":
    main()
