"""Invented dockets and entries for the tests of the docket package."""

from collections.abc import Iterable
from typing import Any

import orjson

from workers.dockets.reader import Docket, DocketEntry, read_dockets


def raw_entry(description: Any = "Notice of Hearing", **fields: Any) -> dict[str, Any]:
    return {"date_filed": "2020-01-02", "description": description, **fields}


def raw_docket(entries: Iterable[Any] = (), **fields: Any) -> dict[str, Any]:
    return {
        "source_id": "test/one",
        "court_id": "tstb",
        "court_kind": "bankruptcy",
        "case_name": "Invented Widgets, Inc.",
        "docket_number": "20-10001",
        "date_filed": "2020-01-02",
        "docket_entries": list(entries),
        **fields,
    }


def read_one(raw: Any) -> Docket:
    (read,) = read_dockets([orjson.dumps(raw)])
    assert isinstance(read, Docket), read
    return read


def entry_saying(description: str) -> DocketEntry:
    return read_one(raw_docket([raw_entry(description)])).entries[0]
