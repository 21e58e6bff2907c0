"""What is found of one who owns the file and computes the whole record anew, as a table.

Each adversary runs the program itself on a ledger of its own, so nothing in the file contradicts
anything else. `make tamper` puts the table into `kernel/verify/REFERENCE.md`; a test compares.
"""

from collections.abc import Callable, Sequence
from typing import Any

from kernel.ledger.ledger import Ledger
from kernel.model.result import RejectedResult
from kernel.records.legal_holds import Grounds
from kernel.retention.erasure import ErasablePayload, erase
from kernel.verify import verify
from kernel.verify.expected import ExpectedHead
from kernel.verify.since import KeptTree, verify_since
from tests.kernel.build import create, memory_ledger, submit, submit_answered
from tests.kernel.deciding import deciding

OPERATIONS = 9
CHANGED = 5
"""The operation at which the adversary begins."""

Document = dict[str, Any]


def ledger_of(documents: Sequence[Document]) -> Ledger:
    """A ledger of these operations, the first with an answer of a model."""
    ledger = memory_ledger()
    first, *rest = documents
    results = [submit_answered(ledger, first, b"answer")]
    results += [submit(ledger, document) for document in rest]
    assert not any(isinstance(result, RejectedResult) for result in results)
    return ledger


HONEST = [create(f"n-{number}", "Note", summary="as it was") for number in range(OPERATIONS)]


def _cut() -> Ledger:
    return ledger_of(HONEST[:CHANGED])


def _left_out() -> Ledger:
    return ledger_of([*HONEST[: CHANGED - 1], *HONEST[CHANGED:]])


def _reordered() -> Ledger:
    before, exchanged = HONEST[: CHANGED - 1], HONEST[CHANGED - 1 : CHANGED + 1]
    return ledger_of([*before, *reversed(exchanged), *HONEST[CHANGED + 1 :]])


def _rewritten() -> Ledger:
    names = ("operation_id", "idempotency_key")
    kept = {name: HONEST[CHANGED - 1][name] for name in names}
    changed = create(f"n-{CHANGED - 1}", "Note", summary="as it was not", envelope=kept)
    return ledger_of([*HONEST[: CHANGED - 1], changed, *HONEST[CHANGED:]])


def _extended() -> Ledger:
    return ledger_of([*HONEST, create("n-forged", "Note")])


def _erased() -> Ledger:
    ledger = ledger_of(HONEST)
    with ledger.transaction() as transaction:
        payload = ErasablePayload("model_answer", f"{HONEST[0]['operation_id']}:0")
        erase(transaction, payload, Grounds("none", "nobody's"), deciding(transaction))
    return ledger


ADVERSARIES: dict[str, Callable[[], Ledger]] = {
    "the tail is cut: an earlier state is put back": _cut,
    "an operation is left out, all that follows is computed anew": _left_out,
    "two operations change places, all that follows is computed anew": _reordered,
    "an operation says something else, all that follows is computed anew": _rewritten,
    "an operation is added that nobody asked for": _extended,
    "a payload is erased, with a receipt that nobody had a right to": _erased,
}


def first_findings(adversary: Callable[[], Ledger]) -> list[str]:
    """Return the rule of the first finding, or no, of each way to verify an adversary's ledger."""
    honest = ledger_of(HONEST)
    with honest.view() as view:
        row_hash = view.log_rows(limit=OPERATIONS)[-1]["row_hash"]
        head = ExpectedHead(OPERATIONS, row_hash)
        before = KeptTree(CHANGED - 1, view.log_tree().root(CHANGED - 1))
        behind = KeptTree(OPERATIONS, view.log_tree().root(OPERATIONS))
    with adversary().view() as view:
        ways: list[Any] = [
            verify(view),
            verify_since(view, before),
            verify(view, expect_head=head),
            verify_since(view, behind),
        ]
    return [way.findings[0].rule if way.findings else "no" for way in ways]


def owner_table() -> str:
    """Let each adversary do it and return the table."""
    lines = [
        "| Whoever owns the file | Nothing kept | Older tree head | Head | Tree head |",
        "|---|---|---|---|---|",
    ]
    for name, adversary in ADVERSARIES.items():
        lines.append(f"| {name} | {' | '.join(first_findings(adversary))} |")
    return "\n".join(lines)
