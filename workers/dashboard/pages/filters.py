"""The filters and places that a page's URL states; what nobody can mean is left out."""

from collections.abc import Mapping
from typing import get_args
from urllib.parse import urlencode

from kernel.work.request_lists import RequestSearch
from kernel.work.requests import State
from workers.views.records import SEQUENCE_MAX

STATES: tuple[State, ...] = get_args(State)
TEXT_CHARS_MAX = 512
_DIGITS_MAX = 19


def text_of(query: Mapping[str, str], name: str) -> str | None:
    """Return a text that a query string states, None for none."""
    return query.get(name, "")[:TEXT_CHARS_MAX].strip() or None


def place_of(query: Mapping[str, str], name: str) -> int | None:
    """Return a sequence at which a page goes on, None for the first page."""
    stated = query.get(name, "")
    is_number = stated.isascii() and stated.isdigit() and len(stated) <= _DIGITS_MAX
    return min(int(stated), SEQUENCE_MAX) if is_number else None


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
    )


def query_of(filters: Mapping[str, object]) -> str:
    """Return filters as a query string, without those that are not stated."""
    return urlencode({name: value for name, value in filters.items() if value})
