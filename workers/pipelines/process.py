"""Runs a pipeline in this process, on the ledger that the settings name.

If nothing else uses the data folder, this process holds it and states the run on the log itself,
and what it recorded of one that is not completed. If a tree runs on it, the records go into the
same database beside the tree's own, rows may be walked by its workers, and the gateway states the
run.
"""

import fcntl
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio.to_thread
import orjson

from actors.commit.receipt_units import SealReceiptsUnit
from actors.commit.run_units import AnchorGroupsUnit, SealRunUnit
from actors.commit.units import commit_alone
from actors.errors import PipelineInvalid
from actors.orchestrator.orchestrator import Orchestrator
from kernel.landscape.errors import LandscapeRefused
from kernel.landscape.open_work import count_failed_tokens
from kernel.landscape.reports import run_of_id
from kernel.landscape.seals import seal_of, seal_to_state
from kernel.ledger.ledger import Ledger, LedgerView
from kernel.records.receipt_seals import range_to_seal
from kernel.transaction.kernel import Kernel
from kernel.values.errors import KernelError
from workers.client.typed.gateway import GatewayClient
from workers.environment.data_folder import DataFolder, DataFolderBusyError
from workers.environment.ledger_access import ledger_place, open_ledger, open_or_create_ledger
from workers.environment.private_files import FILE_MODE, FOLDER_MODE
from workers.environment.settings import Settings
from workers.environment.system_host import system_host
from workers.models.configured_model import close_model, model_of
from workers.pipelines.engine.pipeline import Pipeline
from workers.pipelines.engine.runner import PipelineRun, RunEnd
from workers.pipelines.engine.walks import LocalWalks, Walks
from workers.pipelines.fleet import FleetWalks
from workers.pipelines.loading import load_pipeline
from workers.pipelines.tools import walk_tools

RUN_LOCKS = "pipeline-runs"


@dataclass(frozen=True, slots=True)
class PipelineOrder:
    """What is to be run, and how."""

    run_id: str | None
    """None for a new one."""

    place: str | None = None
    """Where Python finds the pipeline; what a run is resumed from says so itself."""

    config: Mapping[str, str] | None = None
    on_fleet: bool = False
    gateway_url: str = ""
    """Of the tree on the ledger, if one runs."""

    is_stopped: Callable[[], bool] = lambda: False


async def run_pipeline(settings: Settings, order: PipelineOrder) -> RunEnd:
    """Begin a run and run it to its end.

    Raises:
        PipelineInvalid, PipelineStopped, LandscapeRefused: see `PipelineRun`.
    """
    if order.place is None:
        raise PipelineInvalid("a pipeline is named MODULE:NAME")
    pipeline = load_pipeline(order.place)
    pipeline.config |= order.config or {}
    async with _open_ledger(settings) as (ledger, is_alone):
        run_id = order.run_id or ledger.host.new_id()
        stated = {"place": order.place, "config": pipeline.config}
        with _run_lock(settings, run_id):
            async with _prepare_run(settings, order, pipeline, ledger) as run:
                await anyio.to_thread.run_sync(run.begin, run_id, stated)
                return await _run(order, run, ledger, is_alone=is_alone)


async def resume_pipeline(settings: Settings, order: PipelineOrder) -> RunEnd:
    """Go on with a run where its record ends; one that is over is stated on the log.

    Raises:
        PipelineInvalid, PipelineStopped, PipelineSourceDiffers, LandscapeRefused: see
            `PipelineRun`.
    """
    run_id = str(order.run_id)
    async with _open_ledger(settings) as (ledger, is_alone):
        stated = await anyio.to_thread.run_sync(
            ledger.read, partial(_pipeline_of_run, run_id=run_id)
        )
        pipeline = load_pipeline(order.place or stated["place"])
        pipeline.config |= stated["config"]
        with _run_lock(settings, run_id):
            ended = await anyio.to_thread.run_sync(
                ledger.read, partial(_unsealed_end, run_id=run_id)
            )
            if ended is not None:
                await _seal(order, ledger, run_id, is_alone=is_alone)
                return ended
            async with _prepare_run(settings, order, pipeline, ledger) as run:
                await anyio.to_thread.run_sync(run.resume, run_id)
                return await _run(order, run, ledger, is_alone=is_alone)


async def _run(order: PipelineOrder, run: PipelineRun, ledger: Ledger, *, is_alone: bool) -> RunEnd:
    end = await run.run(order.is_stopped)
    if end.status == "completed":
        await _seal(order, ledger, end.run_id, is_alone=is_alone)
    return end


def _pipeline_of_run(view: LedgerView, run_id: str) -> dict[str, Any]:
    """Return what a run has recorded of where its pipeline is."""
    stated = orjson.loads(run_of_id(view, run_id)["settings_json"])
    if not isinstance(stated.get("place"), str):
        message = f"the run {run_id} is none of a pipeline"
        raise LandscapeRefused(message, code="landscape_unknown")
    return dict(stated)


def _unsealed_end(view: LedgerView, run_id: str) -> RunEnd | None:
    """Return the end of a run that is completed and has no seal; it was killed in between."""
    if run_of_id(view, run_id)["status"] != "completed" or seal_of(view, run_id) is not None:
        return None
    return RunEnd(run_id, "completed", 0, count_failed_tokens(view, run_id))


@asynccontextmanager
async def _open_ledger(settings: Settings) -> AsyncIterator[tuple[Ledger, bool]]:
    """Open the ledger, and say whether nothing else uses its folder."""
    place, host = ledger_place(settings), system_host()
    with _hold_or_share(DataFolder(settings.data_dir)) as is_alone:
        opened = partial(open_or_create_ledger if is_alone else open_ledger, place, host)
        ledger = await anyio.to_thread.run_sync(opened)
        try:
            yield ledger, is_alone
        finally:
            if is_alone:
                with anyio.CancelScope(shield=True), suppress(KernelError):
                    await anyio.to_thread.run_sync(_bring_under_the_tree, ledger)
            ledger.close()


def _bring_under_the_tree(ledger: Ledger) -> None:
    """Anchor what was recorded of runs, whatever became of them, and let a row commit to it.

    Where nothing is done the next gateway does it.
    """
    kernel, orchestrator = Kernel(), Orchestrator(ledger.host)
    if commit_alone(AnchorGroupsUnit(), ledger, kernel, orchestrator):
        due = ledger.read(range_to_seal)
        if due is not None:
            commit_alone(SealReceiptsUnit(due), ledger, kernel, orchestrator)


@contextmanager
def _hold_or_share(folder: DataFolder) -> Iterator[bool]:
    lock = folder.lock()
    try:
        lock.__enter__()
    except DataFolderBusyError:
        yield False
        return
    try:
        yield True
    finally:
        lock.__exit__(None, None, None)


@contextmanager
def _run_lock(settings: Settings, run_id: str) -> Iterator[None]:
    """Let one process of this machine at a time go on with a run.

    Raises:
        LandscapeRefused: `landscape_conflict` where another does.
    """
    locks = DataFolder(settings.data_dir).path / RUN_LOCKS
    locks.mkdir(mode=FOLDER_MODE, exist_ok=True)
    fd = os.open(locks / f"{run_id}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise LandscapeRefused(f"another process goes on with the run {run_id}") from None
    finally:
        os.close(fd)


@asynccontextmanager
async def _prepare_run(
    settings: Settings, order: PipelineOrder, pipeline: Pipeline, ledger: Ledger
) -> AsyncIterator[PipelineRun]:
    client = model_of(settings)
    tools = walk_tools(settings, client)
    local = LocalWalks(pipeline.graph, tools, pipeline.concurrency)
    try:
        async with _walks(order, pipeline, local) as walks:
            yield PipelineRun(pipeline, ledger, tools, walks)
    finally:
        await close_model(client)


@asynccontextmanager
async def _walks(
    order: PipelineOrder, pipeline: Pipeline, local: LocalWalks
) -> AsyncIterator[Walks]:
    if not order.on_fleet:
        yield local
        return
    async with FleetWalks(order.gateway_url, pipeline, local) as fleet:
        yield fleet


async def _seal(order: PipelineOrder, ledger: Ledger, run_id: str, *, is_alone: bool) -> None:
    """State the digest of a run on the log: the gateway does where there is one."""
    if not is_alone:
        async with GatewayClient(order.gateway_url) as gateway:
            await gateway.post(f"/v1/landscape/runs/{run_id}/seal", {})
        return

    def seal() -> None:
        stated = ledger.read(partial(seal_to_state, run_id=run_id))
        commit_alone(SealRunUnit(stated), ledger, Kernel(), Orchestrator(ledger.host))

    await anyio.to_thread.run_sync(seal)
