"""Runs `rotulus top`: what needs somebody, the queues and the workers, live in a terminal.

The picture is the dashboard's own (`/snapshot.json`), asked for again and again, so a gateway that
starts anew is found again. If standard output is no terminal, it is printed once.
"""

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import anyio
import click

from workers.cli.common import Seconds, gateway_url, read_settings, run
from workers.cli.top_screen import COLUMNS_MAX, TopPicture, picture_of, screen
from workers.client.errors import GatewayError
from workers.client.typed.gateway import GatewayClient
from workers.environment.output import echo, wants_colours
from workers.environment.terminal import Size, Terminal, is_terminal

ASK_S_MAX: Final = 5.0
EVERY_S_MIN, EVERY_S_MAX = 0.2, 60.0

_FOOT: Final = "q quits, p pauses"
_SIGNALS: Final = (signal.SIGWINCH, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Fetch = Callable[[], Awaitable[TopPicture]]


@click.command()
@click.option(
    "--every",
    "every_s",
    type=Seconds(EVERY_S_MIN, EVERY_S_MAX),
    default=1.0,
    show_default=True,
    help="Seconds between two looks.",
)
def top(every_s: float) -> None:
    """Watch what needs somebody, the queues and the workers; q quits, p pauses.

    Where standard output is no terminal, it is printed once.
    """
    url = gateway_url(read_settings())

    async def show() -> None:
        async with GatewayClient(url, give_up_after_s=0, call_s_max=ASK_S_MAX) as client:

            async def fetch() -> TopPicture:
                return picture_of(await client.get("/snapshot.json"))

            picture = await fetch()
            if is_terminal(sys.stdout):
                terminal = Terminal(sys.stdin.fileno(), sys.stdout.fileno(), wants_colours())
                await LiveScreen(terminal, fetch, url, every_s, picture).run()
                return
            for line in screen(picture, Size(COLUMNS_MAX, COLUMNS_MAX), url):
                echo(line.text)

    run(show)


@dataclass(slots=True)
class LiveScreen:
    """A picture that renews itself in a terminal until somebody quits."""

    terminal: Terminal
    fetch: Fetch
    url: str
    every_s: float
    picture: TopPicture
    _is_paused: bool = False
    _away_since_s: float | None = None
    _why_away: str = ""
    _quitting: anyio.Event = field(default_factory=anyio.Event)

    async def run(self) -> None:
        """Show it until q, or a signal that ends the process, or until the terminal is gone."""
        with self.terminal.screen(), suppress(OSError):
            async with anyio.create_task_group() as tasks:
                for task in (self._renew, self._read_keys, self._take_signals):
                    tasks.start_soon(task)
                await self._quitting.wait()
                tasks.cancel_scope.cancel()

    async def _renew(self) -> None:
        while True:
            self._draw()
            await anyio.sleep(self.every_s)
            if not self._is_paused:
                await self._look()

    async def _look(self) -> None:
        try:
            self.picture = await self.fetch()
        except GatewayError as error:
            if self._away_since_s is None:
                self._away_since_s = anyio.current_time()
            self._why_away = str(error)
        else:
            self._away_since_s = None

    async def _read_keys(self) -> None:
        if not os.isatty(self.terminal.stdin):
            return
        while True:
            await anyio.wait_readable(self.terminal.stdin)
            keys = os.read(self.terminal.stdin, 64)
            if not keys or b"q" in keys:
                self._quitting.set()
                return
            if keys.count(b"p") % 2:
                self._is_paused = not self._is_paused
            self._draw()

    async def _take_signals(self) -> None:
        with anyio.open_signal_receiver(*_SIGNALS) as signals:
            async for number in signals:
                if number != signal.SIGWINCH:
                    self._quitting.set()
                    return
                self._draw()

    def _draw(self) -> None:
        state = "live"
        if self._away_since_s is not None:
            away_s = anyio.current_time() - self._away_since_s
            state = f"reconnecting for {away_s:.0f} s ({self._why_away})"
        if self._is_paused:
            state = "paused, p goes on"
        lines = screen(self.picture, self.terminal.size(), f"{self.url}  {state}", _FOOT)
        self.terminal.draw(lines)
