"""Makes the address of a page of a link, relative to the dashboard's root."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlencode

from workers.views.attention_items import Link, PageName

PATHS: Final[Mapping[PageName, str]] = {
    "fleet": "fleet",
    "overview": "",
    "queue": "queues/{}",
    "record": "record",
    "requests": "requests",
    "reviews": "reviews",
    "run": "runs/{}",
    "schedules": "schedules",
    "session": "sessions/{}",
    "worker": "workers/{}",
    "workers": "workers",
}
"""By page, its path with a place for each id."""


def address_of(link: Link) -> str:
    """Return the address of a page, relative to the root, without a slash before it."""
    path = PATHS[link.page].format(*(quote(each, safe="") for each in link.ids))
    return f"{path}?{urlencode(link.query)}" if link.query else path
