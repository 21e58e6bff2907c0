"""The filters and places that a page's URL states; what nobody can mean is left out.

A time that nobody can read is left out too, and the page says so.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import get_args
from urllib.parse import urlencode

from kernel.model.numbers import SEQUENCE_MAX
from kernel.work.request_lists import RequestSearch
from kernel.work.requests import State
from workers.views.moments import us_of

STATES: tuple[State, ...] = get_args(State)
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
        "state": search.state,
        "priority": search.priority,
        "words": search.words,
        "request_id": search.request_id,
        "request_key": search.request_key,
        "item_key": search.item_key,
        "session_id": search.session_id,
        **{
            name: None if moment is None else moment.replace(tzinfo=None).isoformat()
            for name, moment in moments.items()
        },
    }


def search_of(query: Mapping[str, str]) -> RequestSearch:
    """Return the search for requests that a query string states."""
    state = next((state for state in STATES if state == query.get("state")), None)
    return RequestSearch(
        request_id=text_of(query, "request_id"),
        request_key=text_of(query, "request_key"),
        item_key=text_of(query, "item_key"),
        session_id=text_of(query, "session_id"),
        state=state,
        priority=text_of(query, "priority"),
        words=text_of(query, "words"),
        from_us=us_of(moment_of(query, "since")),
        before_us=us_of(moment_of(query, "until")),
    )


def query_of(filters: Mapping[str, object]) -> str:
    """Return filters as a query string, without those that are not stated."""
    return urlencode({name: value for name, value in filters.items() if value})
