"""Writes the Server-Sent Events of one client.

The first event is the whole picture, at once, so that nothing between here and the browser holds
the answer back. Then each new picture is a change, or the whole again for a client that missed
one. A stream ends by itself after `STREAM_S`: the browser comes back by its own, and a server
that is asked to stop without calling `SnapshotHub.stop` waits no longer than that.
"""

import anyio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from workers.dashboard.headers import LIVE, refusal
from workers.dashboard.hub import Published, SnapshotHub, TooManyListeners

STREAM_S = 30.0
HEARTBEAT_S = 10.0
RETRY_MS = 1_000
LAST_WORD_S = 0.2
"""How long a client may take to hear that its stream has ended."""

LATER = {"Retry-After": "5"}
HEADERS = {**LIVE, "Content-Type": "text/event-stream; charset=utf-8", "X-Accel-Buffering": "no"}


class EventStream(Response):
    """The answer to one client: it runs until the client leaves, the hub stops or its time ends."""

    def __init__(
        self, hub: SnapshotHub, *, stream_s: float = STREAM_S, heartbeat_s: float = HEARTBEAT_S
    ) -> None:
        super().__init__(headers=HEADERS)
        # The length of a stream is not known beforehand.
        del self.headers["Content-Length"]
        self._hub = hub
        self._stream_s = stream_s
        self._heartbeat_s = heartbeat_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the stream, or 503 when the hub has no place left."""
        try:
            with self._hub.listening():
                await self._serve(receive, send)
        except TooManyListeners as error:
            full = refusal(error.code, "the gateway has as many streams as it takes", **LATER)
            await full(scope, receive, send)

    async def _serve(self, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        disconnected = anyio.Event()
        async with anyio.create_task_group() as group:

            async def until_disconnected() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                disconnected.set()
                group.cancel_scope.cancel()

            async def until_stopped() -> None:
                # Also ends a write that a slow client keeps waiting.
                await self._hub.wait_stopped()
                group.cancel_scope.cancel()

            group.start_soon(until_disconnected)
            group.start_soon(until_stopped)
            with anyio.move_on_after(self._stream_s):
                await self._write(send)
            group.cancel_scope.cancel()
        if not disconnected.is_set():
            with anyio.move_on_after(LAST_WORD_S):
                await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _write(self, send: Send) -> None:
        last = self._hub.newest
        await _say(send, b"retry: %d\n\n" % RETRY_MS + self._event(last, whole=True))
        while not self._hub.stopped:
            new = await self._hub.next_after(last.serial, self._heartbeat_s)
            if new is None:
                await _say(send, b": still here\n\n")
                continue
            await _say(send, self._event(new, whole=new.serial != last.serial + 1))
            last = new

    def _event(self, picture: Published, *, whole: bool) -> bytes:
        # The picture was serialised when it was taken; how long ago that was stands beside it.
        held = self._hub.clock() - picture.at
        return b'id: %d\nevent: %b\ndata: {"held_ms":%d,"frame":%b}\n\n' % (
            picture.snapshot.version,
            b"full" if whole else b"delta",
            max(int(held.total_seconds() * 1_000), 0),
            picture.full if whole else picture.delta,
        )


async def _say(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})
