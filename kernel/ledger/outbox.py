"""Writes how requests stand: asked for, ended, and settled where they were given up.

Each request is in one of five states, and its row says which by a number, so that every state has
a part of one index (decision kernel/0690). An outcome is final: of the outcomes' table nothing
changes, and what was given up and is settled keeps its outcome.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from kernel.ledger import schema
from kernel.ledger.store.tables import Row, TableQuery, Tables

COMPLETED: Final = 0
OPEN: Final = 1
CANCELLED: Final = 2
DEAD_LETTER: Final = 3
"""It was given up, and nobody has requeued or dismissed it."""

SETTLED: Final = 4
"""It was given up, and requeued or dismissed."""

STATES: Final = range(5)

STATE_OF: Final = MappingProxyType(
    {"completed": COMPLETED, "cancelled": CANCELLED, "dead_letter": DEAD_LETTER}
)
"""By the outcome of a request that was open."""


NO_TAGS: Final[Mapping[str, str]] = MappingProxyType({})


def states_of(outcome: str) -> tuple[int, ...]:
    """Return the states of the requests with an outcome."""
    state = STATE_OF[outcome]
    return (DEAD_LETTER, SETTLED) if state == DEAD_LETTER else (state,)


def tag_texts(tags: Mapping[str, str]) -> list[str]:
    """Return the tags of a request as they are looked for."""
    return [f"{key}={value}" for key, value in sorted(tags.items())]


def add_request(tables: Tables, row: Row, tags: Mapping[str, str] = NO_TAGS) -> None:
    """Add an open request; `row` has every column but those that say how it stands.

    Where it has tags, its document has them too.
    """
    tables.append(schema.outbox, {**row, "open": 1, "state": OPEN})
    for tag in tag_texts(tags) if tags else ():
        names = ("request_sequence", "queue")
        values = {name: row[name] for name in names} | {"tag": tag, "state": OPEN}
        tables.append(schema.request_tags, values)


def end_request(
    tables: Tables, request_id: str, *, error_signature: str = "", **outcome: Any
) -> None:
    """Give an open request its outcome, by the columns of `outbox_outcomes`.

    `error_signature` is why it was given up, where it was.
    """
    tables.append(schema.outbox_outcomes, {"request_id": request_id, **outcome})
    state = STATE_OF[outcome["outcome"]]
    request = tables.get(schema.outbox, request_id)
    if request is None:
        return
    _set_state(tables, request, {"open": 0, "state": state})
    if state == DEAD_LETTER:
        row = {
            "request_sequence": request["request_sequence"],
            "queue": request["queue"],
            "error_signature": error_signature,
            "settled": 0,
        }
        tables.append(schema.dead_letters, row)


def settle_request(tables: Tables, request_id: str) -> None:
    """Note that a request which was given up needs nobody any more; again changes nothing."""
    request = tables.get(schema.outbox, request_id)
    if request is not None and request["state"] == DEAD_LETTER:
        _set_state(tables, request, {"state": SETTLED})
        tables.update(schema.dead_letters, (request["request_sequence"],), {"settled": 1})


def _set_state(tables: Tables, request: Row, values: Row) -> None:
    tables.update(schema.outbox, (request["request_id"],), values)
    # Nearly all of them have no tags, and reading is slower.
    if b'"tags"' in request["request_bytes"]:
        sequence = request["request_sequence"]
        for row in tables.scan(TableQuery(schema.request_tags, {"request_sequence": sequence})):
            state = {"state": values["state"]}
            tables.update(schema.request_tags, (sequence, row["tag"]), state)
