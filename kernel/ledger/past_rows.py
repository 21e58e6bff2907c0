"""Names what stood behind a row of the log, and refuses a row that there is not."""

from kernel.ledger.ledger import LedgerView
from kernel.values.errors import KernelError


class StateAsOfUnknown(KernelError):
    """What stood at a row cannot be told from the record, or not at a bounded cost."""

    code = "state_as_of_unknown"


def check_sequence(view: LedgerView, sequence: int) -> None:
    """Refuse a row that the log does not have yet.

    Raises:
        StateAsOfUnknown: `state_as_of_ahead`.
    """
    head = view.head().ec_sequence_number
    if sequence > head:
        message = f"the log has {head} rows, and no row {sequence} yet"
        raise StateAsOfUnknown(message, code="state_as_of_ahead")
