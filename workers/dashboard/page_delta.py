"""Tells what changed between two pages, field by field.

A change is itself a row: text, numbers and chips replace the old field, rows inside a list merge
by key, and `order` is present only when it changed. A field that the new page lacks is not in the
change, so the reader keeps it. The rule by which the script applies it is in `static/stream.js`.
"""

from workers.dashboard.page_model import Row, Rows


def changes(old: Row, new: Row) -> Row:
    """Return what turns the old page into the new one; empty when they say the same."""
    return {
        name: _list_changes(old[name], value)
        if isinstance(value, Rows) and isinstance(old.get(name), Rows)
        else value
        for name, value in new.items()
        if old.get(name) != value
    }


def _list_changes(old: Rows, new: Rows) -> Row:
    rows = {k: changes(old.rows.get(k, {}), row) for k, row in new.rows.items()}
    change: Row = {"rows": {k: row for k, row in rows.items() if row}}
    return change if old.order == new.order else {"order": new.order, **change}
