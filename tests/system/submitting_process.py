"""A process that submits envelopes beside others to one ledger and tells what it was answered.

In turn it submits what every process submits under the same key, what only it submits, and a
change of the one node that all of them change.
"""

from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.tables import HeadMoved, Store
from kernel.model.result import SubmissionResult
from kernel.transaction.kernel import Kernel
from kernel.values.canonical import digest
from kernel.values.errors import LedgerUnavailable
from tests.kernel.build import adapt, create, informed
from workers.environment.system_host import system_host

COMMON = "common"


def open_store(place: str) -> Store:
    if place.startswith("postgresql://"):
        from kernel.ledger.postgres.store import PostgresStore  # noqa: PLC0415 - needs the driver

        return PostgresStore(place)
    return SqliteStore(Path(place))


def opened_or_founded(place: str) -> Ledger:
    """Open the ledger or found it, also where another takes longer than a lock is waited for."""
    while True:
        with suppress(LedgerUnavailable):
            return Ledger.create(open_store(place), system_host())


def is_shared(number: int) -> bool:
    return number % 3 == 0


def document(name: str, number: int) -> dict:
    if number == 0:
        submitted = create(COMMON, "Note")
    elif is_shared(number):
        submitted = create(f"shared-{number}", "Note")
    elif number % 3 == 1:
        submitted = create(f"{name}-{number}", "Note")
    else:
        submitted = adapt(COMMON, last=f"{name}-{number}")
    key = digest(["shared" if is_shared(number) else name, number])
    return submitted | {"operation_id": f"{name}:{number}", "idempotency_key": key}


def submit_one(ledger: Ledger, kernel: Kernel, document: dict, number: int) -> object:
    """Submit with the head locked first or late, in turn; nothing may depend on it."""
    begin = ledger.transaction if number % 2 else ledger.optimistic_transaction
    while True:
        with suppress(HeadMoved, LedgerUnavailable), begin() as transaction:
            stated = informed(transaction, dict(document))
            return kernel.submit(transaction, stated, "orchestrator")


def submit_all(connection: Connection, place: str, name: str, count: int) -> None:
    """Say `ready`, wait for a word, open the ledger or found it, and tell each answer.

    Before the second and the last submission it waits for another word, so that none has finished
    before all have begun, or before it was killed.
    """
    connection.send("ready")
    connection.recv()
    ledger, kernel = opened_or_founded(place), Kernel()
    for number in range(count):
        if number in {1, count - 1}:
            connection.recv()
        result = submit_one(ledger, kernel, document(name, number), number)
        assert isinstance(result, SubmissionResult), result
        connection.send((number, result.operation_id, result.ec_sequence_number, result.row_hash))
    ledger.close()
