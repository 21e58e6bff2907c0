"""A pipeline that a test kills: it goes on where it was, and ends when every row has an outcome.

python -m tests.kernel.landscape.resuming FILE ROWS
"""

import sys
from functools import partial
from pathlib import Path

from kernel.landscape.checkpoints import (
    is_due,
    record_checkpoint,
    resume_point,
    row_data,
    topology_of,
)
from kernel.landscape.errors import LandscapeRefused
from kernel.landscape.record_rules import TABLES
from kernel.landscape.recorder import Recorder
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from workers.environment.system_host import system_host

RUN = "run-1"


def open_run(ledger: Ledger, recorder: Recorder) -> None:
    try:
        ledger.read(lambda view: resume_point(view, RUN, topology_of(view, RUN)))
    except LandscapeRefused:
        recorder.begin_run({"double": True}, run_id=RUN)
        recorder.register_node(RUN, "source", "csv", "source")
        recorder.register_node(RUN, "double", "double", "transform")
        recorder.register_edge(RUN, "source", "double", "continue")
        recorder.flush()


def process(ledger: Ledger, rows: int) -> None:
    recorder = Recorder(ledger, group_records=16)
    open_run(ledger, recorder)
    known = ledger.read(lambda view: view.tables.count(TABLES["rows"], {"run_id": RUN}))
    for index in range(known, rows):
        recorder.create_row(
            RUN, "source", index, {"n": index}, row_id=f"row-{index}", keep_payload=True
        )
    recorder.flush()
    point = ledger.read(lambda view: resume_point(view, RUN, topology_of(view, RUN)))
    sequence = 0 if point.checkpoint is None else point.checkpoint["sequence_number"]
    for row_id in point.row_ids:
        _, data, token = ledger.read(partial(_read, row_id=row_id))
        if token is None:
            token = recorder.create_token(RUN, row_id, token_id=f"token-{row_id}")
        recorder.record_token_outcome(
            RUN, token["token_id"], "completed", sink_name="out", context={"doubled": data["n"] * 2}
        )
        sequence += 1
        if is_due(sequence, 5):
            record_checkpoint(
                recorder, RUN, token["token_id"], "double", sequence, {"of": sequence}
            )
        sys.stdout.write(f"{row_id}\n")
        sys.stdout.flush()
    recorder.complete_run(RUN)


def _read(view, row_id):
    row = view.tables.get(TABLES["rows"], RUN, row_id)
    token = view.tables.get(TABLES["tokens"], RUN, f"token-{row_id}")
    return row, row_data(view, row), token


if __name__ == "__main__":
    process(Ledger.create(SqliteStore(Path(sys.argv[1])), system_host()), int(sys.argv[2]))
