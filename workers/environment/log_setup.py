"""Writes one line for each event, on standard error, through one pipeline.

Rules:
- Lines of libraries (uvicorn, arq) and our own take the same way: they look alike and are
  redacted alike. Uvicorn keeps to it when it is run with ``log_config=None``.
- Redaction is the last step before rendering, so that it sees messages with their arguments
  filled in and tracebacks as text.
- What callers cause is written so often in a minute and no more (`log_limit.py`).
- A line that cannot be rendered nicely is rendered anyhow: logging never raises.
"""

import json
import logging
import re
import sys
from collections.abc import Mapping
from typing import Any, Literal, TextIO

import orjson
import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor

from workers.environment.log_limit import CallersLimit
from workers.environment.output import escape_json, printable_line, printable_text

REDACTED = "[redacted]"

_DEPTH_MAX = 8
_TIMESTAMP = "%Y-%m-%dT%H:%M:%S.%fZ"
_FIRST_KEYS = ("timestamp", "level", "event", "logger")
_MULTILINE_KEYS = frozenset({"exception", "stack"})

# These install handlers of their own when they are left alone.
_FOREIGN_LOGGERS = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi", "arq")

_TELLING_WORDS = "password|passwd|passphrase|token|secret|authorization|cookie|api[_-]?key"
_SECRET_NAME = re.compile(rf"(?:^|[^a-z0-9])(?:{_TELLING_WORDS})(?:$|[^a-z0-9])")
_CAMEL_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_URL_CREDENTIALS = re.compile(r"://[^/\s]*@")
_SECRET_PARAMETER = re.compile(rf"([?&](?:\w*[_-])?(?:{_TELLING_WORDS})=)[^&\s\"']+", re.IGNORECASE)
_BEARER = re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]{8,}", re.IGNORECASE)


def configure_logging(
    level: str = "warning",
    fmt: Literal["auto", "json", "console"] = "auto",
    stream: TextIO | None = None,
) -> None:
    """Sends every event of at least `level` to `stream`, by default standard error.

    "auto" writes for people on a terminal and JSON elsewhere. A second call replaces the first.

    Raises:
        ValueError: the level has no such name.
    """
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise ValueError(f"log_level_unknown: {level!r}")
    target = sys.stderr if stream is None else stream
    on_terminal = target.isatty()
    as_console = fmt == "console" or (fmt == "auto" and on_terminal)
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt=_TIMESTAMP, utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    handler = logging.StreamHandler(target)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                redact,
                *(_console(colors=on_terminal) if as_console else [_render_json]),
            ],
        )
    )
    handler.addFilter(CallersLimit())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(number)
    for name in _FOREIGN_LOGGERS:
        foreign = logging.getLogger(name)
        foreign.handlers.clear()
        foreign.setLevel(logging.NOTSET)
        foreign.propagate = True
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


def get_logger(name: str) -> FilteringBoundLogger:
    """Returns the logger of a module; it follows later calls of `configure_logging`."""
    logger: FilteringBoundLogger = structlog.get_logger(name)
    return logger


def redact(_logger: object, _method: str, event_dict: EventDict) -> EventDict:
    """Replaces secrets in an event: values under telling names, credentials inside texts."""
    return {key: _redact(key, value, 0) for key, value in event_dict.items()}


def _redact(name: str, value: object, depth: int) -> Any:
    if value is not None and _SECRET_NAME.search(_CAMEL_HUMP.sub("_", name).lower()):
        return REDACTED
    return _scrub(value, depth)


def _scrub(value: object, depth: int) -> Any:
    """Returns plain data: whatever is not data yet becomes text here, so that it is seen."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return _scrub_text(value)
    if depth >= _DEPTH_MAX:
        return "[too deep]"
    if isinstance(value, Mapping):
        return {str(key): _redact(str(key), item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_scrub(item, depth + 1) for item in value]
    return _scrub_text(_repr(value))


def _repr(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - a broken repr must not break logging
        return f"<{type(value).__name__} without repr>"


def _scrub_text(text: str) -> str:
    text = _URL_CREDENTIALS.sub(f"://{REDACTED}@", text)
    text = _SECRET_PARAMETER.sub(rf"\1{REDACTED}", text)
    return _BEARER.sub(rf"\1 {REDACTED}", text)


def _render_json(_logger: object, _method: str, event_dict: EventDict) -> str:
    first = {key: event_dict.pop(key) for key in _FIRST_KEYS if key in event_dict}
    line = {**first, **event_dict}
    try:
        return escape_json(orjson.dumps(line).decode())
    except TypeError:
        # Integers beyond 64 bits and lone surrogates: rare, and the standard library takes them.
        return escape_json(json.dumps(line, default=repr))


def _console(*, colors: bool) -> list[Processor]:
    renderer = structlog.dev.ConsoleRenderer(
        colors=colors, exception_formatter=structlog.dev.plain_traceback
    )
    return [_escape_controls, renderer]


def _escape_controls(_logger: object, _method: str, event_dict: EventDict) -> EventDict:
    """Keeps a logged text from breaking the line or steering the terminal."""
    return {
        key: (printable_text if key in _MULTILINE_KEYS else printable_line)(value)
        if isinstance(value, str)
        else value
        for key, value in event_dict.items()
    }
