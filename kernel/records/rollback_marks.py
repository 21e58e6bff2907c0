"""Marks operations that were undone and those that undid: a fold of the log like all state.

An operation is in effect unless an undoing that is in effect has undone it. A mark names those
undoings, so an undoing that is itself undone is followed down its chain to the operation that comes
back or goes, however long the chain is. A mark keeps who brought its operation back, so that
undoing it anew is a new operation.

A page of recomputes has a mark from the beginning, which says how many records the page wrote. It
names each that was put back and the operation that did, so that one recompute can be undone and the
others stay (K32). Once all are put back the page is undone, by whoever put back the last.
"""

from collections.abc import Iterable, Mapping

from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.records.operation_steps import AppliedOperation, Place, Places
from kernel.records.record import Operation
from kernel.values.canonical import canonicalize


def mark_of(view: LedgerView, operation_id: str) -> Document:
    """Return an operation's mark; one that undid nothing and was never undone has an empty one."""
    mark = view.record(schema.operation_rollbacks, operation_id)
    return mark or _empty(operation_id)


def is_in_effect(mark: Document, place: Place | None = None) -> bool:
    """Tell whether an operation's writes count, or its write of one record.

    They count where it was not undone and undid nothing.
    """
    if mark["undone_by"] or mark["undoes"]:
        return False
    return place is None or not put_back_by(mark, place)


def put_back_by(mark: Document, place: Place) -> str:
    """Return the operation that has put back a record that this one wrote; empty where none has."""
    put_back: Document = mark.get("put_back", {})
    return str(mark["undone_by"] or put_back.get(_name(place), ""))


def mark_page(operation: Operation, records_written: int) -> None:
    """Record that an operation is a page, which goes back record by record."""
    mark = _empty(operation.operation_id)
    _write(operation, mark | {"records_written": records_written, "put_back": {}})


def record_undone(operation: AppliedOperation) -> None:
    """Mark the operations that this one undoes or compensates, and the records put back."""
    undone: dict[str, list[Place]] = {}
    for effect, _ in operation.applied:
        if effect.undoes is not None:
            place = effect.undoes.store, effect.undoes.record_key
            undone.setdefault(effect.undoes.operation_id, []).append(place)
    compensated = operation.envelope.compensates_operation_id
    if compensated is not None:
        undone.setdefault(compensated, [])
    if undone:
        operation.undone = undone
        operation.mark_undone(operation, undone)


def mark_undone(operation: Operation, undone: Mapping[str, Places]) -> None:
    """Record that an operation undid others, or made up for them, and which records it put back."""
    view, by = operation.transaction, operation.operation_id
    of_pages = {
        name: [*map(_name, places)]
        for name, places in undone.items()
        if "put_back" in mark_of(view, name)
    }
    _write(operation, mark_of(view, by) | {"undoes": [*undone], "of_pages": of_pages})
    goes = [(name, by) for name in undone]
    while goes:
        name, undoing = goes.pop()
        mark = mark_of(view, name)
        of_pages = mark_of(view, undoing).get("of_pages", {})
        _write(operation, _mark_after_undoing(mark, of_pages.get(name, ()), undoing))
        if mark["undone_by"]:
            continue
        for again in mark["undoes"]:
            before = mark_of(view, again)
            back = _back(before, name) | {"brought_back_by": by}
            _write(operation, back)
            if before["undone_by"] and not back["undone_by"]:
                goes.extend((deeper, again) for deeper in back["undoes"])


def _undoings(mark: Document) -> list[str]:
    """Return the undoings in effect of an operation; version 1 of the rules knew of the last."""
    return list(mark.get("undoings", [mark["undone_by"]] if mark["undone_by"] else []))


def _mark_after_undoing(mark: Document, records: Iterable[str], by: str) -> Document:
    undoings = [*dict.fromkeys([*_undoings(mark), by])]
    return _undone(mark, records, by) | {"undoings": undoings}


def _back(mark: Document, from_operation_id: str) -> Document:
    undoings = [name for name in _undoings(mark) if name != from_operation_id]
    return _revert_mark(mark, from_operation_id) | {
        "undoings": undoings,
        "undone_by": "" if "put_back" in mark or not undoings else undoings[-1],
    }


def mark_undone_1(operation: Operation, undone: Mapping[str, Places]) -> None:
    """Record the same, one step of a chain far, as version 1 of the rules does."""
    view = operation.transaction
    for operation_id, places in undone.items():
        mark = mark_of(view, operation_id)
        _write(operation, _undone(mark, map(_name, places), operation.operation_id))
        for again in mark["undoes"]:
            back = _revert_mark(mark_of(view, again), operation_id)
            _write(operation, back | {"brought_back_by": operation.operation_id})
    own = mark_of(view, operation.operation_id)
    _write(operation, own | {"undoes": [*undone]})


def _empty(operation_id: str) -> Document:
    return {
        "operation_id": operation_id,
        "undoes": [],
        "undone_by": "",
        "brought_back_by": "",
        "updated_by_operation_id": "",
    }


def _undone(mark: Document, records: Iterable[str], by: str) -> Document:
    if "put_back" not in mark:
        return mark | {"undone_by": by}
    put_back = mark["put_back"] | dict.fromkeys(records, by)
    is_whole = len(put_back) == mark["records_written"]
    return mark | {"put_back": put_back, "undone_by": by if is_whole else ""}


def _revert_mark(mark: Document, from_operation_id: str) -> Document:
    """Return a mark without what one operation has undone of it."""
    put_back = {
        name: by for name, by in mark.get("put_back", {}).items() if by != from_operation_id
    }
    kept = {"put_back": put_back} if "put_back" in mark else {}
    return mark | kept | {"undone_by": ""}


def _name(place: Place) -> str:
    return "|".join(place)


def _write(operation: Operation, mark: Document) -> None:
    operation_id = operation.operation_id
    operation.transaction.tables.put(
        schema.operation_rollbacks,
        {
            "operation_id": mark["operation_id"],
            "record": canonicalize(mark | {"updated_by_operation_id": operation_id}),
        },
    )
