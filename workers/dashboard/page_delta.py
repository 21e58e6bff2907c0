"""Tells what changed between two pages, field by field.

A change is itself a row: text, numbers and chips replace the old field, rows inside a list merge
by key, and `order` is present only when it changed. A field that the new page lacks is not in the
change, so the reader keeps it. `merge` is the rule that the script applies, in
`static/stream.js`; it exists here so that the pair can be tested as one.
"""

from typing import Any

from workers.dashboard.page_model import Row, Rows


def changes(old: Row, new: Row) -> Row:
    """Return what turns the old page into the new one; empty when they say the same."""
    return {
        name: _list_changes(old[name], value) if _both_lists(old.get(name), value) else value
        for name, value in new.items()
        if old.get(name) != value
    }


def merge(old: Row, change: Row) -> Row:
    """Return the old page with the change applied."""
    merged = dict(old)
    for name, value in change.items():
        are_rows = isinstance(value, dict) and isinstance(old.get(name), Rows)
        merged[name] = _merge_list(old[name], value) if are_rows else value
    return merged


def _both_lists(old: Any, new: Any) -> bool:
    return isinstance(old, Rows) and isinstance(new, Rows)


def _list_changes(old: Rows, new: Rows) -> Row:
    rows = {k: changes(old.rows.get(k, {}), row) for k, row in new.rows.items()}
    change: Row = {"rows": {k: row for k, row in rows.items() if row}}
    return change if old.order == new.order else {"order": new.order, **change}


def _merge_list(old: Rows, change: Row) -> Rows:
    order = change.get("order", old.order)
    rows = {k: merge(old.rows.get(k, {}), change["rows"].get(k, {})) for k in order}
    return Rows(order, rows)
