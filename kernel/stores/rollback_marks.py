"""Which operations were undone, by which, and which ones undid: a fold of the log like all state.

An operation that was undone and whose undoing was itself undone is in effect again; its mark keeps
who brought it back, so that undoing it anew is a new operation.
"""

from kernel.canonical import canonicalize
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.stores.record import Operation


def mark_of(view: LedgerView, operation_id: str) -> Document:
    """Return an operation's mark; one that undid nothing and was never undone has an empty one."""
    mark = view.record(schema.operation_rollbacks, operation_id)
    return mark or {
        "operation_id": operation_id,
        "undoes": [],
        "undone_by": "",
        "brought_back_by": "",
        "updated_by_operation_id": "",
    }


def is_in_effect(mark: Document) -> bool:
    """Tell whether an operation's writes count: it was not undone and undid nothing."""
    return not mark["undone_by"] and not mark["undoes"]


def mark_undone(operation: Operation, undone: list[str]) -> None:
    """Record that an operation undid others, or made up for them."""
    view = operation.transaction
    for operation_id in undone:
        mark = mark_of(view, operation_id)
        _write(operation, mark | {"undone_by": operation.operation_id})
        for again in mark["undoes"]:
            back = {"undone_by": "", "brought_back_by": operation.operation_id}
            _write(operation, mark_of(view, again) | back)
    own = mark_of(view, operation.operation_id)
    _write(operation, own | {"undoes": undone})


def _write(operation: Operation, mark: Document) -> None:
    operation_id = operation.operation_id
    operation.transaction.tables.put(
        schema.operation_rollbacks,
        {
            "operation_id": mark["operation_id"],
            "record": canonicalize(mark | {"updated_by_operation_id": operation_id}),
        },
    )
