"""A function that does not return has failed in time, and its thread is left behind."""

import contextvars
import threading
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from kernel.values.foreign_code import ForeignCodeEnded, traceback_of
from tests.foreign_ends import ENDS, released_at_the_end, stands_still
from workers.environment import foreign_threads
from workers.environment.foreign_threads import CallStack, ForeignCodeHangs, call_within


@pytest.fixture(autouse=True)
def left_behind(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(foreign_threads, "LEFT_BEHIND", [])
    with released_at_the_end():
        yield


def test_a_result_is_returned_and_the_context_of_the_caller_is_there():
    variable = contextvars.ContextVar("variable", default=0)
    variable.set(7)
    assert call_within(60, variable.get) == 7
    assert call_within(60, int, "11", base=2) == 3


@pytest.mark.parametrize("name", ENDS)
def test_whatever_ends_a_call_is_an_exception_of_the_caller(name: str):
    with pytest.raises(Exception) as caught:  # noqa: PT011
        call_within(60, ENDS[name])
    assert "Traceback" in traceback_of(caught.value)
    assert not isinstance(caught.value, ForeignCodeHangs)
    if name == "SystemExit":
        assert isinstance(caught.value, ForeignCodeEnded)


def test_a_call_that_does_not_return_fails_with_the_place_at_which_it_stands():
    with capture_logs() as logs, pytest.raises(ForeignCodeHangs) as caught:
        call_within(0.05, stands_still)
    assert "RELEASED.wait()" in traceback_of(caught.value)
    [said] = logs
    assert (said["event"], said["count"]) == ("foreign_code_left_behind", 1)
    assert "RELEASED.wait()" in said["place"]


def test_calls_take_turns_on_threads_and_a_call_within_a_call_is_on_the_same():
    def inner() -> tuple[int, int]:
        return threading.get_ident(), call_within(0.001, threading.get_ident)

    seen = {call_within(60, inner) for _ in range(3)}
    assert len(seen) == 1
    [(outer, within)] = seen
    assert outer == within != threading.get_ident()


def test_a_process_ends_when_too_much_is_left_behind(monkeypatch: pytest.MonkeyPatch):
    ends: list[int] = []
    monkeypatch.setattr(foreign_threads, "end_process", ends.append)
    monkeypatch.setattr(foreign_threads, "LEFT_BEHIND_MAX", 2)
    for expected in ([], [], [1]):
        with pytest.raises(ForeignCodeHangs):
            call_within(0.001, stands_still)
        assert ends == expected


def test_what_has_returned_meanwhile_is_left_behind_no_more(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(foreign_threads, "LEFT_BEHIND_MAX", 1)
    with released_at_the_end(), pytest.raises(ForeignCodeHangs):
        call_within(0.001, stands_still)
    [is_over] = foreign_threads.LEFT_BEHIND
    for _ in range(1000):
        if is_over():
            break
        threading.Event().wait(0.01)
    foreign_threads.leave_behind(CallStack(), lambda: False)  # would end this process otherwise
    assert len(foreign_threads.LEFT_BEHIND) == 1
