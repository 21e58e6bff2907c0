"""A call of foreign code ends with a result or an `Exception`, whatever it does."""

import asyncio
import signal
import threading

import pytest

from kernel.values.foreign_code import (
    MESSAGE_CHARS_MAX,
    TRACEBACK_HEAD_BYTES,
    TRACEBACK_TAIL_BYTES,
    ForeignCodeEnded,
    call_foreign,
    cause_of,
    message_of,
    traceback_of,
)
from tests.foreign_ends import ENDS, NoException, nobody_at_the_keyboard


def test_a_result_is_returned():
    assert call_foreign(divmod, 7, 2) == (3, 1)
    assert call_foreign(int, "11", base=2) == 3


@pytest.mark.parametrize("name", ENDS)
def test_whatever_ends_a_call_is_an_exception_with_its_cause(name: str):
    with nobody_at_the_keyboard(), pytest.raises(Exception) as caught:  # noqa: PT011
        call_foreign(ENDS[name])
    cause = cause_of(caught.value)
    assert isinstance(caught.value, ForeignCodeEnded) == (not isinstance(cause, Exception))
    assert f"{type(cause).__name__}" in traceback_of(caught.value)
    assert len(message_of(cause)) <= MESSAGE_CHARS_MAX


@pytest.fixture
def interruptible():
    """Let Ctrl-C interrupt, which a shell keeps from what it runs in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_of_the_user_passes_in_the_main_thread_alone(interruptible):
    with pytest.raises(KeyboardInterrupt):
        call_foreign(ENDS["KeyboardInterrupt"])
    seen: list[BaseException] = []

    def work() -> None:
        try:
            call_foreign(ENDS["KeyboardInterrupt"])
        except BaseException as error:  # noqa: BLE001 - it is what is looked for
            seen.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert [type(error) for error in seen] == [ForeignCodeEnded]


def test_an_error_says_by_what_it_ended():
    with pytest.raises(ForeignCodeEnded, match="NoException: more than it should") as caught:
        call_foreign(ENDS["BaseException"])
    assert isinstance(caught.value.ended_by, NoException)
    assert caught.value.__cause__ is caught.value.ended_by
    assert caught.value.code == "foreign_code_ended"


def test_texts_of_errors_are_bounded_and_can_always_be_written():
    assert message_of("\ud800" + "x" * 10_000) == "?" + "x" * (MESSAGE_CHARS_MAX - 1)
    assert "? begin" in traceback_of(RuntimeError("\ud800 begin"))
    text = traceback_of(RuntimeError("begin " + "x" * 100_000 + " end"))
    assert len(text) < TRACEBACK_HEAD_BYTES + TRACEBACK_TAIL_BYTES + 100
    assert text.startswith("RuntimeError: begin")
    assert text.rstrip().endswith("end")


def test_the_frames_before_those_of_the_code_that_raised_are_left_out():
    def fail():
        try:
            _ = {}["first"]
        except KeyError:
            raise ValueError("second")  # noqa: B904 - both are shown

    with pytest.raises(ValueError, match="second") as caught:
        call_foreign(fail)
    whole = traceback_of(caught.value)
    assert 'foreign_code.py", line' in whole
    ours = call_foreign.__code__.co_filename
    cut = traceback_of(caught.value, (__file__, ours))
    assert cut == whole  # there are no others
    cut = traceback_of(caught.value, (ours,))
    assert cut.count('File "') == whole.count('File "')  # the first frame is this file's
    caught.value.__traceback__ = caught.value.__traceback__.tb_next
    cut = traceback_of(caught.value, (ours,))
    assert ours not in cut
    assert [cut.count(each) for each in ("KeyError: 'first'", "ValueError: second")] == [1, 1]


def test_a_cancellation_within_is_no_cancellation_of_the_caller():
    with pytest.raises(ForeignCodeEnded):
        call_foreign(ENDS["CancelledError"])
    assert not issubclass(ForeignCodeEnded, asyncio.CancelledError)
