"""Shows the log of processes to somebody who reads along: a line for each event that is his."""

import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import orjson

from actors import errors as of_actors
from kernel.values import errors as of_kernel
from queues import errors as of_queues
from workers.environment.output import (
    printable_line,
    printable_text,
    time_of_day,
    wants_colours,
    write_raw,
)
from workers.worker.job_log import JOB_DONE

_OTHERS: Final = frozenset(
    {"arq", "asyncio", "httpcore", "httpx", "redis", "uvicorn"}
    | {part.__name__.partition(".")[0] for part in (of_actors, of_kernel, of_queues)}
    | {__name__.partition(".")[0]}
)
"""The first words of loggers that are not the user's: ours, and those of our libraries."""

_COLOURS: Final[Mapping[str, str]] = MappingProxyType(
    {"warning": "33", "error": "31", "critical": "1;31", JOB_DONE: "32"}
)
_DIM, _BOLD = "2", "1"
_HEAD: Final = frozenset({"timestamp", "level", "event", "logger", "exception", "queue"})
_SAID: Final = frozenset({"took_ms", "result", "attempt", "error"})
_NO_FRAMES: Final = (
    *(str(Path(part.__file__ or "").parents[1]) for part in (of_actors, of_kernel, of_queues)),
    *(str(Path(__file__).parents[1]), sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")),
)
"""Folders whose frames of a traceback explain nothing about the user's code."""

_TRACES_MAX: Final = 256


class LogLines:
    """Writes what children log on standard output, coloured where it is a terminal."""

    def __init__(self) -> None:
        self._has_colours = wants_colours()
        self._traces: dict[str, str] = {}

    def write(self, line: bytes) -> None:
        """Show a line of a child: an event as it concerns the user, else as it is."""
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError:
            record = None
        if not isinstance(record, dict) or "event" not in record:
            write_raw(printable_text(line.decode(errors="backslashreplace")), sys.stdout)
        elif _concerns(record):
            self.say(*self._lines(record))

    def say(self, *lines: str) -> None:
        """Write lines of ours."""
        write_raw("".join(f"{line}\n" for line in lines), sys.stdout)

    def paint(self, text: str, colour: str) -> str:
        """Return a text in a colour, where there are any."""
        return f"\x1b[{colour}m{text}\x1b[0m" if self._has_colours else text

    def stamp(self, subject: str, text: str, colour: str = "") -> str:
        """Return a line with the time of day, what it is about, and what happened."""
        at = self.paint(time_of_day(), _DIM)
        about = self.paint(printable_line(subject), _BOLD)
        return f"{at}  {about}  {self.paint(printable_line(text), colour)}"

    def _lines(self, record: Mapping[str, Any]) -> list[str]:
        event = str(record["event"])
        colour = _COLOURS.get(event) or _COLOURS.get(str(record.get("level")), "")
        request_id = str(record.get("request_id") or record.get("item_key") or "")
        subject = str(record.get("queue") or _queue_of(request_id) or "rotulus")
        lines = [self.stamp(subject, _sentence(event, record), colour)]
        trace = record.get("exception")
        if isinstance(trace, str) and self._traces.get(request_id) != trace:
            if len(self._traces) >= _TRACES_MAX:
                self._traces.clear()
            self._traces[request_id] = trace
            lines += [
                self.paint(f"    {printable_line(each)}", _DIM) for each in _user_frames(trace)
            ]
        return lines


def _concerns(record: Mapping[str, Any]) -> bool:
    """Tell whether an event is of the user's jobs, or says that something is wrong."""
    if record["event"] == JOB_DONE or record.get("level") not in {"debug", "info"}:
        return True
    return str(record.get("logger", "")).partition(".")[0] not in _OTHERS


def _queue_of(request_id: str) -> str:
    """Return the queue that the id of a request names."""
    words = request_id.split(":")
    return words[1] if len(words) > 2 else ""


def _user_frames(trace: str) -> list[str]:
    """Return a traceback without the frames that are not the user's; all of one without his."""
    lines = trace.rstrip("\n").split("\n")
    kept, is_kept = [], True
    for line in lines:
        if line.startswith('  File "'):
            is_kept = not line.removeprefix('  File "').startswith(_NO_FRAMES)
        elif not line.startswith("    "):
            is_kept = True
        if is_kept:
            kept.append(line)
    has_frames = any(line.startswith('  File "') for line in kept)
    return kept if has_frames else lines


def _sentence(event: str, record: Mapping[str, Any]) -> str:
    attempt = record.get("attempt", 1)
    tried = f", attempt {attempt}" if attempt != 1 else ""
    if event == JOB_DONE:
        return f"done in {record.get('took_ms')} ms{tried}: {record.get('result')}"
    if "error" in record and "queue" in record:
        return f"{event.replace('_', ' ')}, attempt {attempt}: {record['error']}"
    if event == "item_dead_lettered":
        return f"given up: {record.get('error_signature')}; {record.get('item_key')}"
    facts = " ".join(
        f"{name}={value}" for name, value in record.items() if name not in _HEAD | _SAID
    )
    return f"{event} {facts}".rstrip()
