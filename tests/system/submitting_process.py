"""A process that submits envelopes beside others to one ledger and prints what it was answered.

    python -m tests.system.submitting_process LEDGER NAME COUNT

LEDGER is a file or the URL of a database. It prints `ready`, waits for a line, opens the ledger
(and founds it when it is the first), and prints one line of JSON for each answer, after COMMIT.
After the first answer it waits for another line, so that none has finished before all have begun.
In turn it submits what every process submits under the same key, what only it submits, and a
change of the one node that all of them change.
"""

import json
import sys
from pathlib import Path

from kernel.canonical import digest
from kernel.kernel import Kernel
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite import SqliteStore
from kernel.ledger.tables import Store
from kernel.model.result import SubmissionResult
from tests.kernel.build import adapt, create, informed
from workers.environment.system_host import system_host

COMMON = "common"


def open_store(place: str) -> Store:
    if place.startswith("postgresql://"):
        from kernel.ledger.postgres import PostgresStore  # noqa: PLC0415 - needs the driver

        return PostgresStore(place)
    return SqliteStore(Path(place))


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


def main(place: str, name: str, count: int) -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    ledger, kernel = Ledger.create(open_store(place), system_host()), Kernel()
    for number in range(count):
        with ledger.transaction() as transaction:
            stated = informed(transaction, document(name, number))
            result = kernel.submit(transaction, stated, "orchestrator")
        assert isinstance(result, SubmissionResult), result
        answer = [number, result.operation_id, result.ec_sequence_number, result.row_hash]
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()
        if number == 0:
            sys.stdin.readline()
    ledger.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
