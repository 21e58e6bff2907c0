"""Bounds the parts of the page of a session by the bytes that they take, whatever its names are."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from workers.dashboard.pages.page import breakable_text
from workers.dashboard.sanitize import TEXT_CHARS_MAX
from workers.views.session_course import CourseStep, SessionCourse

T = TypeVar("T")

NAME_CHARS_MAX: Final = 48
"""Of a hypothesis in a list; it leads to the page that has its whole name."""

STRUCK_SHOWN_MAX: Final = 6
FATES_BYTES_MAX: Final = 12_000
STEPS_BYTES_MAX: Final = 15_000
TRAIL_BYTES_MAX: Final = 19_000
SLIDER_STEPS_MAX: Final = 600
_FATE_BYTES: Final = 85
_STEP_BYTES: Final = 330
_ENTRY_BYTES: Final = 270
_NAME_BYTES: Final = 60
"""Of the elements of each, beside the texts in them."""


class Fates(NamedTuple):
    """Hypotheses of a page: from which place on, and where the next page begins."""

    first: int
    shown: Sequence[str]
    next: int | None


def fitting(items: Sequence[T], bytes_max: int, size: Callable[[T], int]) -> list[T]:
    """Return the first items that fit in so many bytes, at least one where there is any."""
    total, kept = 0, list[T]()
    for item in items:
        total += size(item)
        if kept and total > bytes_max:
            break
        kept.append(item)
    return kept


def fates_of(names: Sequence[str], first: int) -> Fates:
    """Return the hypotheses that a page shows from a place on."""
    shown = fitting(names[first:], FATES_BYTES_MAX, lambda name: _FATE_BYTES + _of_name(name))
    behind = first + len(shown)
    return Fates(first, shown, behind if behind < len(names) else None)


def steps_of(course: SessionCourse) -> list[CourseStep]:
    """Return the steps that a page shows, those next to the one that is asked for."""
    nearest = sorted(course.steps, key=lambda step: abs(step.number - course.at))
    return sorted(fitting(nearest, STEPS_BYTES_MAX, _step_bytes), key=lambda step: step.number)


def entry_bytes(event: Any) -> int:
    """Return about how many bytes a page takes for an entry of a trail."""
    said = (event["payload"].get(name) for name in _ABOUT)
    texts = sum(_of_text(str(each)) for each in said if each)
    struck = event["delta"]["eliminated"][:STRUCK_SHOWN_MAX]
    return _ENTRY_BYTES + texts + sum(_NAME_BYTES + _of_name(name) for name in struck)


_ABOUT: Final = ("observation_id", "obligation_id", "conclusion", "source_id")


def _step_bytes(step: CourseStep) -> int:
    texts = [(step.rule or step.verb, TEXT_CHARS_MAX), (step.reason or "", 400)]
    if step.words is not None:
        texts += [(step.words.text or "", 400), (step.words.source_ref, 2 * TEXT_CHARS_MAX)]
    struck = step.struck[:STRUCK_SHOWN_MAX]
    named = sum(_NAME_BYTES + _of_name(name) for name in struck)
    return _STEP_BYTES + named + sum(_of_text(text, chars_max) for text, chars_max in texts)


def _of_name(name: str) -> int:
    return _of_text(name, NAME_CHARS_MAX)


def _of_text(text: str, chars_max: int = TEXT_CHARS_MAX) -> int:
    return len(breakable_text(text, chars_max).encode())
