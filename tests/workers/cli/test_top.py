"""`rotulus top`: one screen of the dashboard's snapshot, live over a terminal, once over a pipe."""

import json
import os
import pty
import re
import signal
import struct
import termios
from collections.abc import Awaitable, Callable
from contextlib import suppress
from fcntl import ioctl
from functools import partial
from typing import Any

import anyio
import httpx
import pytest

from tests.workers.cli.command import rotulus
from tests.workers.dashboard.fake_source import QUEUES, make_snapshot
from workers.cli import top as top_module
from workers.cli.top import LiveScreen
from workers.cli.top_screen import TopPicture, cut, picture_of, screen
from workers.client.errors import GatewayError
from workers.client.typed.gateway import GatewayClient
from workers.dashboard.sanitize import tidy
from workers.dashboard.snapshot import snapshot_json
from workers.environment.terminal import Size, Terminal

HOSTILE = "w\x1b[2J\u202e\n<b>"
WIDE = "漢字" * 20


def answer() -> Any:
    return json.loads(snapshot_json(tidy(make_snapshot())))


def texts(columns: int = 200, height: int = 100) -> list[str]:
    lines = screen(picture_of(answer()), Size(columns, height), "http://g", "foot")
    return [line.text for line in lines]


def test_what_needs_somebody_is_first_and_queues_in_trouble_come_before_others():
    lines = texts()
    kinds = [line.split()[0] for line in lines[3:6]]
    assert kinds == ["critical", "warning", "notice"]
    assert lines[3].endswith(f", for 60 min: rotulus worker --queues {QUEUES[1]}")
    queues = [line.split()[0] for line in lines if line.split()[:1] and line.split()[0] in QUEUES]
    assert queues == [QUEUES[1], QUEUES[2], QUEUES[0]]
    assert lines[-1] == "foot"


def test_the_counts_of_a_row_are_those_of_its_queue_by_the_names_of_their_columns():
    state = answer()
    [queue] = [each for each in state["queues"]["value"] if each["name"] == QUEUES[0]]
    ready = sum(each["ready"] for each in queue["priorities"])
    [head] = [line for line in texts() if line.startswith("queue ")]
    [row] = [line for line in texts() if line.startswith(QUEUES[0])]
    shown = dict(zip(re.split(r"\s{2,}", head), re.split(r"\s{2,}", row), strict=True))
    names = ("open", "held", "delayed", "suspended", "dead")
    assert {name: shown[name] for name in names} == {name: f"{queue[name]:,}" for name in names}
    assert (shown["ready"], shown["in flight"]) == (f"{ready:,}", str(queue["in_flight"]))


@pytest.mark.parametrize("columns", [1, 20, 40, 80, 200])
@pytest.mark.parametrize("height", [1, 5, 12, 40])
def test_no_line_is_wider_and_no_screen_higher_than_the_terminal(columns, height):
    state = answer()
    state["workers"]["value"]["workers"][0]["worker_id"] = WIDE
    state["queues"]["value"][0]["name"] = HOSTILE
    lines = screen(picture_of(state), Size(columns, height), "http://g", "foot")
    assert len(lines) <= height
    for line in lines:
        assert line.text.isprintable()
        assert line.text == cut(line.text, columns)
    assert lines[-1].text == cut("foot", columns)


def test_a_narrow_screen_keeps_the_columns_that_count():
    [head] = [line for line in texts(60, 40) if line.startswith("queue")]
    assert {"open", "ready", "dead"} <= {*head.split()}
    assert "suspended" not in head


def test_parts_that_were_not_read_are_named():
    state = answer()
    state["queues"] |= {"value": None, "error": "queue_unavailable"}
    state["workers"]["value"] = None
    lines = [line.text for line in screen(picture_of(state), Size(200, 40), "g")]
    assert lines[1].endswith("queues not read: queue_unavailable")


LIES = ("[]", "{}", "7", '{"time": 1}', json.dumps({"attention": {"value": [{"kind": 7}]}}))


@pytest.mark.parametrize("lie", LIES)
def test_what_is_no_snapshot_is_said_to_be_none(lie):
    with pytest.raises(GatewayError, match="no snapshot"):
        picture_of(json.loads(lie))


def test_over_a_pipe_it_is_printed_once(monkeypatch):
    def respond(request: httpx.Request) -> httpx.Response:
        assert request.url.path == "/snapshot.json"
        return httpx.Response(200, json=answer())

    client = partial(GatewayClient, transport=httpx.MockTransport(respond))
    monkeypatch.setattr(top_module, "GatewayClient", client)
    result = rotulus("top")
    assert (result.exit_code, "\x1b" in result.stdout) == (0, False)
    assert f"no worker serves {QUEUES[1]}" in result.stdout
    monkeypatch.setenv("ROTULUS_GATEWAY_URL", "http://127.0.0.1:9")
    monkeypatch.setattr(top_module, "GatewayClient", GatewayClient)
    assert (rotulus("top").exit_code, "rotulus up" in rotulus("top").stderr) == (1, True)


class Window:
    """A terminal as somebody sees it: what is written there, and the keys that are pressed."""

    def __init__(self, columns: int = 120, lines: int = 30) -> None:
        self.outer, self.inner = pty.openpty()
        os.set_blocking(self.outer, False)
        self.resize(columns, lines)
        self._seen = ""

    def resize(self, columns: int, lines: int) -> None:
        ioctl(self.inner, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def press(self, keys: str) -> None:
        os.write(self.outer, keys.encode())

    async def shows(self, words: str) -> str:
        """Wait until something new has these words, and return it."""
        with anyio.fail_after(10):
            while words not in self._seen:
                await anyio.sleep(0.005)
                with suppress(BlockingIOError):
                    self._seen += os.read(self.outer, 100_000).decode()
        seen, self._seen = self._seen, ""
        return seen

    def close(self) -> None:
        os.close(self.outer)
        os.close(self.inner)


@pytest.fixture
def window():
    window = Window()
    yield window
    window.close()


async def watched(
    window: Window, fetch: Callable[[], Awaitable[TopPicture]], use: Callable[[], Awaitable[None]]
) -> None:
    """Watch over a terminal while somebody uses it, who quits in the end."""
    terminal = Terminal(window.inner, window.inner)
    live = LiveScreen(terminal, fetch, "http://g", 0.01, picture_of(answer()))
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(live.run)
            await use()


@pytest.mark.anyio
async def test_it_renews_pauses_resizes_reconnects_and_gives_the_terminal_back(window):
    state, looks, away = answer(), 0, False
    before = termios.tcgetattr(window.inner)

    async def fetch() -> TopPicture:
        nonlocal looks
        await anyio.lowlevel.checkpoint()
        if away:
            raise GatewayError("gateway_unreachable", "nobody answers")
        looks += 1
        state["ledger"]["value"]["sequence"] = f"{1000 + looks}"
        return picture_of(state)

    async def use() -> None:
        nonlocal away
        assert "\x1b[?1049h" in await window.shows("row 1003")
        away = True
        await window.shows("reconnecting for 0 s (nobody answers)")
        away = False
        await window.shows("  live")
        window.press("p")
        await window.shows("paused, p goes on")
        still = looks
        await anyio.sleep(0.05)
        assert looks <= still + 1
        window.press("p")
        await window.shows(f"row {1000 + looks + 2}")
        window.resize(30, 8)
        os.kill(os.getpid(), signal.SIGWINCH)
        narrow = await window.shows("more lines)")
        frame = re.sub(r"\x1b\[[\d;?]*\w", "", narrow.rpartition("\x1b[H")[2])
        assert max(len(line.strip("\r")) for line in frame.split("\n")) <= 30
        window.press("q")

    await watched(window, fetch, use)
    assert "\x1b[?1049l" in await window.shows("\x1b[?25h")
    assert termios.tcgetattr(window.inner) == before


@pytest.mark.anyio
async def test_a_signal_ends_it_in_good_order(window):
    async def fetch() -> TopPicture:
        await anyio.lowlevel.checkpoint()
        return picture_of(answer())

    async def use() -> None:
        await window.shows("live")
        os.kill(os.getpid(), signal.SIGTERM)

    await watched(window, fetch, use)
    await window.shows("\x1b[?1049l")
