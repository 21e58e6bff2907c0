"""Runs `rotulus landscape`: runs, what they came to, their seals and payloads (seed 003)."""

from collections import deque
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from urllib.parse import quote

import click

from kernel.landscape.export import ImportRefused, export_csv, export_run, import_run
from kernel.landscape.open_lineage import open_lineage_events
from kernel.landscape.payloads import purge_payloads
from kernel.landscape.prov_json import prov_document
from kernel.landscape.runtime.views import run_view
from kernel.model.numbers import DAYS_MAX
from kernel.records.access.readable_view import ReadableView
from workers.cli.common import (
    as_json,
    command_error,
    gateway_url,
    print_document,
    read_settings,
)
from workers.cli.gateway_call import ask_gateway
from workers.cli.question_commands import (
    Columns,
    as_document,
    as_rows,
    plain,
    question_command,
    question_of,
)
from workers.cli.reading import lock_ledger, read_record
from workers.environment.output import write_json_bytes
from workers.environment.system_host import system_host
from workers.environment.terminal_progress import Progress
from workers.questions.activity import DiagnoseRuns
from workers.questions.question import Question
from workers.questions.runs import REPORTS, GetRunSummary, ListRuns
from workers.use_cases.log_archiving import give_space_back

_REPORTS: dict[str, type[Question]] = {
    "summary": GetRunSummary,
    **{report.report: report for report in REPORTS},
}
_FORMATS: dict[str, Callable[[ReadableView, str], Iterator[bytes]]] = {
    "openlineage": lambda view, run_id: open_lineage_events(
        view, run_id, producer=f"urn:rotulus:{version('rotulus')}"
    ),
    "prov": prov_document,
}
_RUNS: Columns = {
    name: name
    for name in ("run_id", "status", "started_at", "completed_at", "reproducibility_grade")
}
_US_PER_DAY = 86_400_000_000


@click.group()
def landscape() -> None:
    """Look at runs: what ran, what it came to, what needs attention."""


landscape.add_command(question_command(ListRuns, "runs", as_rows("runs", _RUNS)))


@landscape.command()
@click.argument("run_id")
@click.argument("name", type=click.Choice(list(_REPORTS)), default="summary")
@as_json
def report(run_id: str, name: str, *, as_json: bool) -> None:
    """Report on RUN_ID: its summary, or NAME."""
    document = plain(read_record(question_of(_REPORTS[name], {"run_id": run_id}).answer))
    shown = document if as_json else document.get("content", document)
    print_document(shown, as_json=as_json)


landscape.add_command(
    question_command(
        DiagnoseRuns,
        "diagnose",
        as_document,
        is_problem=lambda document: any(
            problem["severity"] != "INFO" for problem in document["problems"]
        ),
    )
)


@landscape.command()
@click.argument("run_id")
@as_json
def seal(run_id: str, *, as_json: bool) -> None:
    """State the digests of RUN_ID, which has ended, on the log; asks the running gateway."""
    url = gateway_url(read_settings())
    answer = ask_gateway(url, f"/v1/landscape/runs/{quote(run_id, safe='')}/seal", {})
    print_document(answer, as_json=as_json)


@landscape.command()
@click.argument("run_id")
@click.option(
    "--format",
    "shape",
    type=click.Choice(["records", *_FORMATS]),
    default="records",
    show_default=True,
    help="JSON lines that verify by themselves, events of OpenLineage, or W3C PROV-JSON.",
)
@click.option("--key-file", type=click.Path(exists=True, path_type=Path), help="Signs each line.")
@click.option("--csv", "folder", type=click.Path(file_okay=False, path_type=Path), help="As files.")
def export(run_id: str, shape: str, key_file: Path | None, folder: Path | None) -> None:
    """Write RUN_ID as JSON lines that verify by themselves, in another format, or as CSV files."""
    if shape != "records" and (key_file or folder):
        raise click.UsageError("--key-file and --csv are of the format `records`")
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        read_record(lambda view: export_csv(run_view(view, run_id), run_id, folder))
        return
    key = None if key_file is None else key_file.read_bytes()

    def write(view: ReadableView) -> None:
        pieces = _FORMATS[shape](run_view(view, run_id), run_id) if shape in _FORMATS else None
        size = 0
        with Progress("export") as progress:
            for piece in pieces or export_run(run_view(view, run_id), run_id, key):
                write_json_bytes(piece)
                size += len(piece)
                progress.show(f"{size} bytes")

    read_record(write)


@landscape.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--key-file", type=click.Path(exists=True, path_type=Path), help="Of the lines.")
@as_json
def import_file(file: Path, key_file: Path | None, *, as_json: bool) -> None:
    """Verify the exported run in FILE and take it in, while nothing else runs.

    Where there is no ledger, one is made.
    """
    key = None if key_file is None else key_file.read_bytes()
    with lock_ledger(read_settings(), may_be_new=True) as ledger, file.open("rb") as lines:
        try:
            manifest = import_run(ledger, lines, key)
        except ImportRefused as refused:
            raise command_error(refused.code, f"{file}: {refused}") from None
    print_document(manifest, as_json=as_json)


@landscape.command()
@click.option(
    "--days", type=click.IntRange(0, DAYS_MAX), required=True, help="That ended so long ago."
)
@click.option("--failed", is_flag=True, help="Also those of runs that failed or were interrupted.")
@as_json
def purge(days: int, *, failed: bool, as_json: bool) -> None:
    """Remove the payloads of old runs while nothing else runs; hashes and seals stay.

    The file becomes shorter, where a program made it that could let it (decision kernel/0381).
    """
    before_us = system_host().now_us() - days * _US_PER_DAY
    statuses = ("completed", "failed", "interrupted") if failed else ("completed",)
    with lock_ledger(read_settings()) as ledger:
        result = purge_payloads(ledger, before_us=before_us, statuses=statuses)
        deque(give_space_back(ledger), 0)
    document = {
        "deleted_count": result.deleted_count,
        "bytes_freed": result.bytes_freed,
        "runs": list(result.runs),
        "kept": result.kept,
    }
    print_document(document, as_json=as_json)
