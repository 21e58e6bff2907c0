"""Reads the filters and places that a page's URL states; what nobody can mean is left out.

A time that nobody can read is left out too, and the page says so.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import get_args
from urllib.parse import urlencode

from kernel.model.numbers import SEQUENCE_MAX
from kernel.work.errors import WorkRefused
from kernel.work.request_search import NUMBERS_MAX, RequestSearch, StateAsked, numbers_in
from workers.views.moments import us_of

STATES: tuple[StateAsked, ...] = get_args(StateAsked)
TEXT_CHARS_MAX = 512
_DIGITS_MAX = 19
_DATE_CHARS = len("2026-01-31 ")
AGES = ("since", "until")


def text_of(query: Mapping[str, str], name: str) -> str | None:
    """Return a text that a query string states, None for none."""
    return query.get(name, "")[:TEXT_CHARS_MAX].strip() or None


def place_of(query: Mapping[str, str], name: str) -> int | None:
    """Return a sequence at which a page goes on, None for the first page."""
    stated = query.get(name, "")
    is_number = stated.isascii() and stated.isdigit() and len(stated) <= _DIGITS_MAX
    return min(int(stated), SEQUENCE_MAX) if is_number else None


def moment_of(query: Mapping[str, str], name: str) -> datetime | None:
    """Return a time of a query string, in UTC where it states no zone, None for none.

    A `+` that nobody encoded arrives as a space; behind the date it is the sign of a zone.
    """
    stated = text_of(query, name) or ""
    stated = stated[:_DATE_CHARS] + stated[_DATE_CHARS:].replace(" ", "+")
    try:
        moment = datetime.fromisoformat(stated)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def no_times_of(query: Mapping[str, str]) -> list[str]:
    """Return the names of the bounds of time that a query string states and nobody can read."""
    return [name for name in AGES if text_of(query, name) and moment_of(query, name) is None]


def filters_of(query: Mapping[str, str], search: RequestSearch) -> dict[str, str | None]:
    """Return the filters of a list of requests by their names in a URL; times are in UTC."""
    moments = {name: moment_of(query, name) for name in AGES}
    return {
        "queue": search.queue,
        "state": search.state,
        "priority": search.priority,
        "words": search.words,
        "request_id": search.request_id,
        "request_key": search.request_key,
        "item_key": search.item_key,
        "tag": search.tag,
        "error_signature": search.error_signature,
        "session_id": search.session_id,
        "content_words": search.content_words,
        "numbers": search.numbers,
        **{
            name: None if moment is None else moment.replace(tzinfo=None).isoformat()
            for name, moment in moments.items()
        },
    }


def search_of(query: Mapping[str, str]) -> RequestSearch:
    """Return the search for requests that a query string states."""
    state = next((state for state in STATES if state == query.get("state")), None)
    return RequestSearch(
        queue=text_of(query, "queue"),
        request_id=text_of(query, "request_id"),
        request_key=text_of(query, "request_key"),
        item_key=text_of(query, "item_key"),
        tag=text_of(query, "tag"),
        error_signature=text_of(query, "error_signature"),
        session_id=text_of(query, "session_id"),
        state=state,
        priority=text_of(query, "priority"),
        words=text_of(query, "words"),
        content_words=text_of(query, "content_words"),
        numbers=_numbers_of(query),
        from_us=us_of(moment_of(query, "since")),
        before_us=us_of(moment_of(query, "until")),
    )


def _numbers_of(query: Mapping[str, str]) -> str | None:
    """Return the numbers of requests that a query string states, None where nobody can read them.

    They are more than a text has.
    """
    stated = query.get("numbers", "")
    try:
        return ",".join(map(str, numbers_in(stated))) if stated else None
    except WorkRefused:
        return None


def exact_search_of(pairs: Sequence[tuple[str, str]]) -> RequestSearch:
    """Return the search that names and values of a query string state, and nothing less.

    Where more is done than read, a filter that is left out would be about other requests.

    Raises:
        ValueError: a filter that there is not, that is stated twice, or that cannot be read.
    """
    query = dict(pairs)
    search = search_of(query)
    if len(query) < len(pairs):
        raise ValueError("each filter is stated once")
    if unknown := sorted(query.keys() - filters_of({}, RequestSearch()).keys()):
        raise ValueError(f"there is no filter {unknown[0][:TEXT_CHARS_MAX]}")
    if unread := no_times_of(query):
        raise ValueError(f"{unread[0]}: a time is written like 2026-01-31T12:00")
    if query.get("state") and search.state is None:
        raise ValueError(f"state: one of {', '.join(STATES)}")
    if query.get("numbers") and search.numbers is None:
        raise ValueError(f"numbers: at most {NUMBERS_MAX} numbers of requests, such as 3,17")
    for name, stated in query.items():
        if name == "numbers":
            continue
        if not stated.strip() or "\x00" in stated or len(stated) > TEXT_CHARS_MAX:
            raise ValueError(f"{name}: 1 to {TEXT_CHARS_MAX} characters, none of them U+0000")
    return search


def query_of(filters: Mapping[str, object]) -> str:
    """Return filters as a query string, without those that are not stated."""
    return urlencode({name: value for name, value in filters.items() if value})
