"""HTTP over a plain socket: prepared bytes go out as they are, and what comes is read strictly."""

import socket
from collections.abc import Iterator
from typing import Final

from tests.fuzz.judge import Answer

ANSWER_S: Final = 60.0
_END: Final = b"\r\n\r\n"


class NoAnswerError(Exception):
    """No answer came, or what came is none; says which."""


class FuzzConnection:
    """A connection on which one request is asked after another."""

    def __init__(self, port: int, timeout_s: float = ANSWER_S) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""
        self.open = True
        self.used = False

    def send(self, content: bytes) -> None:
        """Send bytes; a server may refuse them before it has taken all."""
        try:
            self._socket.sendall(content)
        except (BrokenPipeError, ConnectionResetError):
            self.open = False

    def close(self) -> None:
        self.open = False
        self._socket.close()

    def patience(self, seconds: float) -> None:
        """Say how long what comes next may take."""
        self._socket.settimeout(seconds)

    def answer(self, *, head_only: bool = False) -> Answer | None:
        """Return the next answer; None where the connection ended without one.

        Raises:
            NoAnswerError: what came is no HTTP, or not all of it came.
            TimeoutError: it did not come in time.
        """
        while True:
            head = self._until(_END)
            if head is None:
                return None
            first, *lines = head.decode("latin-1").split("\r\n")
            parts = first.split(" ", 2)
            if len(parts) < 2 or not parts[0].startswith("HTTP/1.") or not parts[1].isdigit():
                raise NoAnswerError(f"no HTTP: {first[:80]!a}")
            headers = {}
            for line in lines:
                name, _, value = line.partition(":")
                headers[name.lower()] = value.strip()
            if not 100 <= int(parts[1]) < 200:
                break
        body = b"" if head_only else self._body(headers)
        if headers.get("connection", "").lower() == "close":
            self.open = False
        self.used = True
        return Answer(int(parts[1]), headers, body)

    @property
    def left_over(self) -> bytes:
        """What came beyond the answers."""
        return self._received

    def _body(self, headers: dict[str, str]) -> bytes:
        if headers.get("content-type", "").startswith("text/event-stream"):
            # It has no end; what it begins with is enough.
            self.open = False
            return b""
        if "content-length" in headers:
            size = int(headers["content-length"])
            while len(self._received) < size:
                if not self._more():
                    raise NoAnswerError("an answer without its end")
            body, self._received = self._received[:size], self._received[size:]
            return body
        if headers.get("transfer-encoding") == "chunked":
            return b"".join(self._chunks())
        while self._more():
            pass
        body, self._received = self._received, b""
        return body

    def _chunks(self) -> Iterator[bytes]:
        while True:
            line = self._until(b"\r\n")
            if line is None:
                raise NoAnswerError("an answer without its end")
            size = int(line, 16) + 2
            while len(self._received) < size:
                if not self._more():
                    raise NoAnswerError("an answer without its end")
            chunk, self._received = self._received[: size - 2], self._received[size:]
            if not chunk:
                return
            yield chunk

    def _until(self, end: bytes) -> bytes | None:
        while end not in self._received:
            if not self._more():
                if self._received:
                    raise NoAnswerError(f"no HTTP: {self._received[:80]!a}")
                return None
        content, _, self._received = self._received.partition(end)
        return content

    def _more(self) -> bool:
        try:
            received = self._socket.recv(1 << 16)
        except (ConnectionResetError, BrokenPipeError):
            received = b""
        if not received:
            self.open = False
        self._received += received
        return bool(received)
