import io
import json
import logging
import re

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from tests.workers.environment.terminal import Terminal
from workers.environment.log_setup import REDACTED, configure_logging, get_logger, redact


@pytest.fixture(autouse=True)
def _logging_is_put_back():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


def lines(stream: io.StringIO) -> list[dict]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def logged(level: str = "debug", fmt: str = "auto") -> io.StringIO:
    stream = io.StringIO()
    configure_logging(level, fmt, stream)
    return stream


def test_an_event_off_a_terminal_is_one_json_line_with_time_and_level_first():
    stream = logged()
    get_logger("rotulus.test").info("batch_committed", units=3)
    [line] = lines(stream)
    assert list(line)[:3] == ["timestamp", "level", "event"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line.pop("timestamp"))
    assert line == {
        "level": "info",
        "event": "batch_committed",
        "logger": "rotulus.test",
        "units": 3,
    }


def test_a_terminal_gets_colours_and_no_json():
    stream = Terminal()
    configure_logging("info", "auto", stream)
    get_logger("t").info("started", port=1)
    assert "\x1b[" in stream.getvalue()
    assert not stream.getvalue().startswith("{")


def test_console_lines_off_a_terminal_have_no_colours():
    stream = logged(fmt="console")
    get_logger("t").info("started", port=1)
    assert "\x1b[" not in stream.getvalue()
    assert "port=1" in stream.getvalue()


def test_quiet_by_default():
    stream = io.StringIO()
    configure_logging(stream=stream)
    get_logger("t").info("unheard")
    logging.getLogger("arq.worker").info("unheard")
    get_logger("t").warning("heard")
    assert [line["event"] for line in lines(stream)] == ["heard"]


def test_an_unknown_level_is_refused():
    with pytest.raises(ValueError, match="log_level_unknown: 'loud'"):
        configure_logging("loud")


def test_bound_context_is_on_every_line_of_ours_and_of_libraries():
    stream = logged()
    with structlog.contextvars.bound_contextvars(session_id="s1", operation_id="o1"):
        get_logger("t").info("ours")
        logging.getLogger("uvicorn.error").info("theirs, %s", "formatted")
    get_logger("t").info("outside")
    first, second, third = lines(stream)
    assert (first["session_id"], first["operation_id"]) == ("s1", "o1")
    assert (second["session_id"], second["event"]) == ("s1", "theirs, formatted")
    assert second["logger"] == "uvicorn.error"
    assert "session_id" not in third


def test_handlers_that_libraries_installed_are_replaced():
    elsewhere = io.StringIO()
    for name in ("uvicorn", "uvicorn.access", "arq"):
        logging.getLogger(name).addHandler(logging.StreamHandler(elsewhere))
        logging.getLogger(name).propagate = False
    stream = logged()
    for name in ("uvicorn", "uvicorn.access", "arq"):
        logging.getLogger(name).warning("once")
    assert [line["logger"] for line in lines(stream)] == ["uvicorn", "uvicorn.access", "arq"]
    assert elsewhere.getvalue() == ""


def test_configuring_again_replaces_the_first_configuration():
    first = logged()
    logger = get_logger("t")
    second = logged("error")
    logger.warning("unheard")
    logger.error("heard")
    assert first.getvalue() == ""
    assert [line["event"] for line in lines(second)] == ["heard"]


@pytest.mark.parametrize(
    "name",
    ["password", "token", "secret", "Authorization", "worker_token", "clientSecret", "x-api-key"],
)
def test_a_value_under_a_telling_name_is_dropped(name):
    stream = logged()
    get_logger("t").info("event", **{name: "hunter2", "deep": [{name: {"a": "hunter2"}}]})
    logging.getLogger("lib").warning("event", extra={name: "hunter2"})
    assert "hunter2" not in stream.getvalue()
    assert lines(stream)[0][name] == REDACTED
    assert lines(stream)[0]["deep"] == [{name: REDACTED}]


@pytest.mark.parametrize("name", ["input_tokens", "tokenizer", "secretary", "idempotency_key"])
def test_a_name_that_only_resembles_a_telling_one_is_kept(name):
    assert redact(None, "info", {name: 12}) == {name: 12}


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("redis://me:hunter2@host:1/0", f"redis://{REDACTED}@host:1/0"),
        ("redis://:hunter2@x@host/0", f"redis://{REDACTED}@host/0"),
        ("GET /events?token=hunter2&a=1", f"GET /events?token={REDACTED}&a=1"),
        ("GET /events?a=1&worker_token=hunter2", f"GET /events?a=1&worker_token={REDACTED}"),
        ("sent Bearer hunter2hunter2", f"sent Bearer {REDACTED}"),
        ("http://host/path?mail=a@b", "http://host/path?mail=a@b"),
    ],
)
def test_credentials_inside_a_text_are_dropped(text, kept):
    stream = logged()
    get_logger("t").info(text, where=text, several=(text,))
    logging.getLogger("lib").warning("%s", text)
    ours, theirs = lines(stream)
    assert (ours["event"], ours["where"], ours["several"], theirs["event"]) == (
        kept,
        kept,
        [kept],
        kept,
    )


def test_credentials_in_a_traceback_are_dropped():
    stream = logged()
    try:
        raise ConnectionError("redis://:hunter2@host refused")  # noqa: TRY301 - to be caught here
    except ConnectionError as error:
        get_logger("t").exception("failed", cause=error)
    [line] = lines(stream)
    assert "hunter2" not in stream.getvalue()
    assert f"redis://{REDACTED}@host refused" in line["exception"]
    assert line["exception"].startswith("Traceback")


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def test_values_that_json_does_not_know_are_logged_all_the_same():
    stream = logged()
    deep: list = []
    deep.append(deep)
    get_logger("t").info(
        "odd", big=2**70, surrogate="\ud800", broken=Unprintable(), deep=deep, keys={1: b"x"}
    )
    [line] = lines(stream)
    assert line["big"] == 2**70
    assert line["surrogate"] == "\ud800"
    assert line["broken"] == "<Unprintable without repr>"
    assert line["keys"] == {"1": "b'x'"}


def test_a_logged_text_cannot_break_the_line_or_steer_the_terminal():
    stream = logged(fmt="console")
    get_logger("t").info("one\ntwo", name="\x1b[2Jgone")
    assert len(stream.getvalue().splitlines()) == 1
    assert "\x1b" not in stream.getvalue()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(event=st.text(), value=json_values)
def test_whatever_is_logged_is_one_line_of_json(event, value):
    stream = logged()
    get_logger("t").info(event, value=value)
    assert stream.getvalue().count("\n") == 1
    assert json.loads(stream.getvalue())["level"] == "info"


@given(json_values)
def test_no_secret_survives_under_a_telling_name_at_any_depth(value):
    event = redact(None, "info", {"a": [{"token": value, "b": {"password": value}}]})
    kept = None if value is None else REDACTED
    assert event == {"a": [{"token": kept, "b": {"password": kept}}]}
