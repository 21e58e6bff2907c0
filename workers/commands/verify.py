"""`rotulus verify`: the record, computed again."""

import sys
from pathlib import Path

import click

from workers.commands.common import as_json, clean_errors, data_dir, print_document, read_settings
from workers.datafolder import DataFolder
from workers.progress import Progress
from workers.record import verify_file


@click.command()
@as_json
@data_dir
def verify(data_dir: Path | None, *, as_json: bool) -> None:
    """Recompute the whole record from its stored bytes and name the first bad row.

    Reads the ledger file of the data folder; nothing needs to run. Ends with 1 on any finding.
    """
    path = DataFolder(read_settings(data_dir).data_dir).ledger_path
    with clean_errors(), Progress("verify") as progress:
        found = verify_file(path, lambda done, total: progress.show(f"{done} of {total} rows"))
        progress.show(f"{found.rows} rows")
    document = {
        "verifies": found.ok,
        "rows": found.rows,
        "receipts": found.receipts,
        "blobs": found.blobs,
        "belief_sessions": found.belief_sessions,
        "belief_events": found.belief_events,
        "requests_open": found.requests_open,
        "requests_closed": found.requests_closed,
        "authorities_equal": found.authorities_equal,
        "authorities_pending": found.authorities_pending,
        "head_hash": found.head_hash,
        "findings": [
            {"table": one.table, "key": one.key, "rule": one.rule, "message": one.message}
            for one in found.findings
        ],
    }
    print_document(document, as_json=as_json)
    sys.exit(0 if found.ok else 1)
