"""Defines the entry that stands with each table of the ledger in the schema (§17.3).

A typed store is one entry: who owns it, by which columns a replay may search it as it was, whether
its records are written once, name things or speak of nodes. Whatever folds, verifies, replays,
rebuilds, undoes, lists or previews a store reads its entry; `tests/kernel/toy_store.py` has a store
of its own to prove it. Columns beside a record say how they follow from it (`of_record`). A store
that cannot be searched says so, and a search of it is refused instead of scanning. How two writes
of a record are compared is the noun's (`kernel/records/comparison.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Literal

StorageClass = Literal[
    "table",
    "jsonl",
    "atomic_view",
    "derived_index",
    "current_view",
    "receipt_store",
    "blob_store",
]
RetentionClass = Literal["ephemeral", "durable"]

KERNEL = "EC Core, kernel runtime (§17)"
GRAPH = "DOC72, graph stores (§4.3.1, §4.3.2)"
MATTERS = "Artifact 2, matters and topics (§4.3.8 to §4.3.21)"
SHARING = "Artifact 4, sharing (§4.3.9)"
DOCUMENTS = "Artifact 5, documents (§4.3.4, §4.3.11, §16)"

Derive = Callable[[dict[str, Any]], Any]
"""A column's value by the record beside which it stands."""


@dataclass(frozen=True, slots=True)
class StateStore:
    """A typed store: records that the log folds into, each in its newest version."""

    owner: str
    storage_class: StorageClass = "table"
    searched_by: tuple[str, ...] | None = None
    """Columns that a record never changes, by which its store is searched when an effect is
    applied; empty where it is looked through as a whole, None where it is not searched."""

    written_once: bool = False
    """Whether a record is written beside an effect of another store, and never again."""

    holds_things: bool = False
    """Whether its keys are names by which operations refer to things, so that a record says in what
    the thing lies (§12.3)."""

    speaks_of: Callable[[dict[str, Any]], tuple[Any, ...]] | None = None
    """The nodes of which a record speaks; None where it speaks of itself."""


def state(store: StateStore) -> dict[str, Any]:
    """Return the `info` of a typed store's table."""
    return {"state": store}


def of_record(derive: str | Derive) -> dict[str, Any]:
    """Return the `info` of a column that repeats a field of the record, or follows from it."""
    return {"of_record": itemgetter(derive) if isinstance(derive, str) else derive}
