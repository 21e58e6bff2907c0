"""A process that stops in the middle of a transaction and is continued later.

    python -m tests.system.stopping_process LEDGER IDLE_WRITER_MAX_MS

It founds the ledger or opens it, submits one envelope, prints `holding`, and waits for a line with
the lock of the head in its hands. Then it goes on: prints how its COMMIT ended, submits the same
envelope again, prints the answer's sequence.
"""

import sys

from kernel.ledger.ledger import Ledger
from kernel.ledger.postgres import connection as postgres_connection
from kernel.model.result import SubmissionResult
from kernel.transaction.kernel import Kernel
from tests.kernel.build import create, op_id
from tests.system.submitting_process import open_store
from workers.environment.system_host import system_host


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(place: str, idle_writer_max_ms: str) -> None:
    postgres_connection.IDLE_WRITER_MAX_MS = int(idle_writer_max_ms)
    ledger, kernel = Ledger.create(open_store(place), system_host()), Kernel()
    # The process that goes on meanwhile draws its ids in the same order.
    document = create("of-the-stopped", "Note", envelope={"operation_id": op_id("of-the-stopped")})
    try:
        with ledger.transaction() as transaction:
            kernel.submit(transaction, document, "caller")
            say("holding")
            sys.stdin.readline()
    except Exception as error:  # noqa: BLE001 - named to whoever asks
        say(getattr(error, "code", repr(error)))
    else:
        say("committed")
    with ledger.transaction() as transaction:
        result = kernel.submit(transaction, document, "caller")
    assert isinstance(result, SubmissionResult), result
    say(f"{result.ec_sequence_number} {result.duplicate}")
    ledger.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
