"""The command `rotulus`: each part by itself, and all of them at once."""

import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import anyio
import click
import orjson

from workers.children import die_with_parent
from workers.datafolder import DataFolder
from workers.demo import Report, run_demo
from workers.dockets.sample import sample_path
from workers.gateway import serve_gateway
from workers.gateway_client import GatewayClient, GatewayError
from workers.ingest import Ingest
from workers.logs import configure_logging
from workers.progress import Progress
from workers.record import verify_file
from workers.settings import Settings, load_settings, settings_table, take_parent_pid
from workers.show import show
from workers.tree import Tree, running_tree
from workers.worker import serve_worker

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON for a program to read.")
data_dir = click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where ledger and Redis keep their files.  [ROTULUS_DATA_DIR; ./rotulus-data]",
)
worker_count = click.option(
    "--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Worker processes."
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="rotulus", prog_name="rotulus")
def main() -> None:
    """Rotulus: every decision through one kernel onto one tamper-evident record.

    \b
    rotulus demo               the whole of it, on real court dockets
    rotulus up                 the same processes, left running for you
    rotulus ingest FILE        dockets into a running gateway
    rotulus verify             recompute the record from its stored bytes
    rotulus show log           look at what was decided

    Settings are environment variables: see `rotulus settings`.
    """  # noqa: D301 - the backspace is click's mark for text as it stands


@main.command()
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False))
@click.option("--exit", "exits", is_flag=True, help="End when the record is verified.")
@as_json
@data_dir
@worker_count
def demo(
    file: str | None, data_dir: Path | None, workers: int, *, exits: bool, as_json: bool
) -> None:
    """Start everything, ingest dockets, verify the record, and stay up until Ctrl-C.

    FILE holds one docket a line (JSON Lines); without it a bundled sample of real dockets is
    taken. It may be run again at any time: what is on the record is recognised.
    """
    settings = _settings(data_dir)
    failed = _run(partial(_demo, settings, file, workers, exits=exits, as_json=as_json))
    sys.exit(1 if failed else 0)


@main.command()
@data_dir
@worker_count
def up(data_dir: Path | None, workers: int) -> None:
    """Run Redis, a gateway and workers in one process tree until Ctrl-C."""

    async def stay() -> None:
        async with running_tree(_settings(data_dir), workers=workers) as tree:
            _say_where(tree)
            await tree.supervisor.wait_failed()

    _run(stay)


@main.command()
@data_dir
def gateway(data_dir: Path | None) -> None:
    """Run one gateway: sessions, kernel, ledger, HTTP, dashboard.

    Needs ROTULUS_REDIS_URL; with ROTULUS_WORKER_TOKEN set, workers that know it may hand in.
    """
    settings = _settings(data_dir, child=True)
    _run(partial(serve_gateway, settings, _redis_url(settings)))


@main.command()
@data_dir
def worker(data_dir: Path | None) -> None:
    """Run one worker: drain slots that compute authorities.

    Needs ROTULUS_REDIS_URL, ROTULUS_GATEWAY_URL and ROTULUS_WORKER_TOKEN, and reads the ledger in
    the data folder.
    """
    settings = _settings(data_dir, child=True)
    _run(partial(serve_worker, settings, _redis_url(settings)))


@main.command()
@click.argument("file", type=click.File("rb"))
@as_json
@data_dir
def ingest(file: IO[bytes], data_dir: Path | None, *, as_json: bool) -> None:
    """Post the dockets of FILE (JSON Lines, - for standard input) to a running gateway."""
    settings = _settings(data_dir)

    async def post() -> dict[str, Any]:
        async with GatewayClient(_gateway_url(settings)) as client:
            with Progress("ingest") as progress:
                summary = await Ingest(
                    client,
                    lambda now: progress.show(f"{now.dockets} dockets, {now.entries} entries"),
                ).run(file)
        return summary.document()

    document = _run(post)
    _print(document, as_json=as_json)
    sys.exit(1 if document["dockets_failed"] else 0)


@main.command()
@as_json
@data_dir
def verify(data_dir: Path | None, *, as_json: bool) -> None:
    """Recompute the whole record from its stored bytes and name the first bad row.

    Reads the ledger file of the data folder; nothing needs to run. Ends with 1 on any finding.
    """
    path = DataFolder(_settings(data_dir).data_dir).ledger_path
    with _clean_errors(), Progress("verify") as progress:
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
    _print(document, as_json=as_json)
    sys.exit(0 if found.ok else 1)


@main.command()
@as_json
def settings(*, as_json: bool) -> None:
    """List the settings, their defaults and what they mean."""
    rows = settings_table()
    if as_json:
        _print(
            [{"name": name, "default": default, "meaning": text} for name, default, text in rows],
            as_json=True,
        )
        return
    for name, default, text in rows:
        click.echo(f"{name}  [{default}]\n    {text}")


main.add_command(show)


async def _demo(
    settings: Settings, file: str | None, workers: int, *, exits: bool, as_json: bool
) -> bool:
    failed = True
    async with running_tree(settings, workers=workers) as tree:
        click.echo(f"Rotulus is up: {tree.gateway_url}", err=True)
        with _lines(file) as lines:
            report = await run_demo(tree, lines)
        failed = bool(report.failures)
        _print_report(report, as_json=as_json)
        if not exits:
            _say_where(tree)
            await tree.supervisor.wait_failed()
    return failed


@contextmanager
def _lines(file: str | None) -> Iterator[IO[bytes]]:
    with sample_path().open("rb") if file is None else Path(file).open("rb") as lines:
        yield lines


def _print_report(report: Report, *, as_json: bool) -> None:
    document = report.document()
    if as_json:
        _print(document, as_json=True)
        return
    ingest, record = document["ingest"], document["record"]
    verdict = "verifies" if record["verifies"] else "DOES NOT VERIFY"
    click.echo(
        f"\n  dockets        {ingest['dockets']} with {ingest['entries']} entries"
        f"\n  operations     {ingest['operations_accepted']} recorded now, "
        f"{ingest['operations_already_on_record']} were on the record"
        f"\n  eliminations   {ingest['hypotheses_eliminated']} hypotheses struck, "
        f"{record['belief_events']} audit entries in {record['belief_sessions']} sessions"
        f"\n  authorities    {record['authorities_equal']} equal a computation from scratch"
        f"\n  requests       {report.requests['recorded']} recorded, each with one outcome"
        f"\n  record         {record['rows']} rows and {record['receipts']} receipts: {verdict}"
        f"\n  head           {record['head_hash']}"
    )
    for code, count in ingest["input_problems"].items():
        click.echo(f"  bad input      {count} x {code}")
    for failure in report.failures:
        click.echo(f"  FAILED         {failure}")


def _say_where(tree: Tree) -> None:
    click.echo(
        f"\n  dashboard      {tree.gateway_url}/"
        f"\n  ledger file    {tree.folder.ledger_path}"
        "\n  stop           Ctrl-C\n"
    )


def _settings(data_dir: Path | None, *, child: bool = False) -> Settings:
    if child:
        parent = take_parent_pid()
        if parent is not None:
            die_with_parent(parent)
    with _clean_errors():
        known = load_settings(**({} if data_dir is None else {"data_dir": data_dir}))
    configure_logging(known.log_level, known.log_format)
    return known


def _redis_url(settings: Settings) -> str:
    if settings.redis_url is None:
        raise click.ClickException(
            "redis_unavailable: set ROTULUS_REDIS_URL, or use `rotulus up`, which starts a Redis"
        )
    return str(settings.redis_url)


def _gateway_url(settings: Settings) -> str:
    """Return the gateway of the tree that runs on this data folder, else the configured one."""
    runtime = DataFolder(settings.data_dir).read_runtime()
    return str(runtime["gateway_url"] if runtime else settings.gateway_url)


def _run(main_task: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    with _clean_errors():
        return anyio.run(main_task, backend="asyncio")


@contextmanager
def _clean_errors() -> Iterator[None]:
    """An error with a code is the user's to read; anything else is ours and keeps its traceback."""
    try:
        yield
    except GatewayError as error:
        raise click.ClickException(f"{error.code}: {error}") from None
    except Exception as error:
        code = getattr(error, "code", None)
        if not isinstance(code, str):
            raise
        text = str(error)
        raise click.ClickException(text if text.startswith(code) else f"{code}: {text}") from None


def _print(document: Any, *, as_json: bool) -> None:
    if as_json:
        click.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())
        return
    for name, value in document.items():
        if isinstance(value, list):
            click.echo(f"{name}: {len(value)}")
            for one in value:
                click.echo(f"  {one if isinstance(one, str) else orjson.dumps(one).decode()}")
        else:
            shown = value if isinstance(value, str) else orjson.dumps(value).decode()
            click.echo(f"{name}: {shown}")
