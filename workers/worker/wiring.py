"""Puts a worker together, once: for its process, and for tests."""

import os
import random
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib.metadata import version
from types import MappingProxyType
from typing import TYPE_CHECKING

import anyio

from kernel.authority.requests import AUTHORITY_QUEUE
from kernel.authority.strategy import BetaPosteriorMean
from kernel.ledger.ledger import Ledger, LedgerView
from kernel.model.bindings.particulars import Particulars
from kernel.records.source_artifacts import Artifact
from kernel.work.contents import BINDING_QUEUE, EXTRACTION_QUEUE
from kernel.work.queue_kinds import QUEUE_KINDS
from kernel.work.retry_policy import AUTHORITY_POLICY, DEFAULT_POLICY, RetryPolicy
from queues.fleet.cron_claims import Crons
from queues.fleet.worker_heartbeats import Heartbeats
from queues.leases.capacity_leases import CapacityLeases
from queues.queue.job_progress import JobProgress
from queues.queue.work_queue import WorkQueue
from queues.redis.connection import RedisClient
from queues.redis.watch import RedisWatch
from workers.client.typed.gateway import GatewayClient
from workers.environment.ledger_mark import mark_of
from workers.environment.retry_spec import ANY_QUEUE
from workers.environment.settings import Settings
from workers.plugins import QueuePlugin
from workers.plugins.installed import particulars_readers, queue_plugins, redactors
from workers.worker.arq_runner import WorkerProcess, new_worker_id
from workers.worker.attempts import ErrorTexts, new_token
from workers.worker.batches import BatchProcessor, Handler
from workers.worker.cron import CRONS, CronRunner, CronTools
from workers.worker.gateway_reports import GatewayReporter
from workers.worker.handlers.authority import AuthorityHandler
from workers.worker.handlers.binding import BindingHandler
from workers.worker.handlers.binding_evaluator import (
    BindingCapacity,
    BindingEvaluator,
    ParticularsReader,
    ReadersOfPlugins,
    RecordEvaluator,
)
from workers.worker.handlers.extraction import ExtractionHandler
from workers.worker.handlers.extractors import Extractors
from workers.worker.handlers.plugin import PluginHandler
from workers.worker.job_log import log_jobs
from workers.worker.plugin_schedules import schedules_of

if TYPE_CHECKING:
    from workers.worker.item_spans import WorkerTraces


@dataclass(frozen=True, slots=True)
class HandlerDependencies:
    """The services from which the handlers of queues are built."""

    ledger: Ledger
    reporter: GatewayReporter
    leases: CapacityLeases
    queue: WorkQueue
    worker_id: str
    binding_slots: int
    evaluator: BindingEvaluator
    progress: JobProgress
    texts: ErrorTexts
    extractors: Extractors = field(default_factory=Extractors)
    plugins: Mapping[str, QueuePlugin] = field(default_factory=dict)


def _binding(needs: HandlerDependencies) -> Handler:
    capacity = BindingCapacity(needs.leases, needs.queue, needs.binding_slots, needs.worker_id)
    now_us = needs.ledger.host.now_us
    return BindingHandler(
        needs.ledger, needs.reporter, capacity, needs.evaluator, now_us, needs.texts
    )


HANDLERS: Mapping[str, Callable[[HandlerDependencies], Handler]] = MappingProxyType(
    {
        AUTHORITY_QUEUE: lambda x: AuthorityHandler(
            x.ledger, x.reporter, BetaPosteriorMean(), x.texts
        ),
        BINDING_QUEUE: _binding,
        EXTRACTION_QUEUE: lambda x: ExtractionHandler(x.ledger, x.reporter, x.extractors, x.texts),
    }
)
"""What the items of each queue are that is part of Rotulus."""


def handler_of(queue: str, needs: HandlerDependencies) -> Handler:
    """Return the handler of a queue, which a plug-in has for its own."""
    if queue in HANDLERS:
        return HANDLERS[queue](needs)
    plugin = needs.plugins[queue]
    return PluginHandler(needs.ledger, needs.reporter, plugin, needs.progress, needs.texts)


def retry_policies(
    settings: Settings, plugins: Mapping[str, QueuePlugin]
) -> dict[str, RetryPolicy]:
    """Return the policy of each queue: the operator's for it, its own, or that of all others."""
    stated = settings.retry_policies
    own = {name: each.retry.policy for name, each in plugins.items() if each.retry is not None}
    others = stated.get(ANY_QUEUE)
    built_in = {AUTHORITY_QUEUE: AUTHORITY_POLICY}
    return {
        name: stated.get(name) or own.get(name) or others or built_in.get(name, DEFAULT_POLICY)
        for name in QUEUE_KINDS
    }


AroundEvaluator = Callable[[BindingEvaluator], BindingEvaluator]


class ParticularsOfDockets:
    """Reads by the rules for dockets, which a worker that meets no docket does not load."""

    @cached_property
    def _reader(self) -> ParticularsReader:
        from workers.worker.handlers.docket_particulars import (  # noqa: PLC0415 - the reason above
            DocketParticulars,
        )

        return DocketParticulars()

    def read(self, view: LedgerView, target_kind: str, artifact: Artifact) -> Particulars:
        """Return what the text says; see `ParticularsReader`."""
        return self._reader.read(view, target_kind, artifact)


def itself(evaluator: BindingEvaluator) -> BindingEvaluator:
    """Return the evaluator, with nothing around it."""
    return evaluator


def build_worker(
    settings: Settings,
    ledger: Ledger,
    redis: RedisClient,
    gateway: GatewayClient,
    traces: "WorkerTraces | None",
    extractors: Extractors | None = None,
    around_evaluator: AroundEvaluator = itself,
) -> WorkerProcess:
    """Put a worker together on a ledger that it reads, a Redis, and a gateway to report to.

    `around_evaluator` is what tests put around the evaluator of bindings.
    """
    reader = ReadersOfPlugins(particulars_readers(), ParticularsOfDockets())
    evaluator = around_evaluator(RecordEvaluator(ledger, reader))
    plugins = queue_plugins(settings.app)  # their queues are in the table from here on
    if settings.log_level in {"debug", "info"}:
        plugins = {name: log_jobs(plugin) for name, plugin in plugins.items()}
    worker_id, leases, reporter = new_worker_id(), CapacityLeases(redis), GatewayReporter(gateway)
    texts, policies = (
        ErrorTexts(worker_id, redactors(settings.app)),
        retry_policies(settings, plugins),
    )
    claim_token = partial(new_token, worker_id)
    queues = {name: WorkQueue(redis, name, new_token=claim_token) for name in QUEUE_KINDS}
    tools = CronTools(queues, ledger, reporter, Crons(redis), policies)
    processors, alone = {}, anyio.Lock()
    for name in settings.queue_names or tuple(QUEUE_KINDS):
        needs = HandlerDependencies(
            ledger,
            reporter,
            leases,
            queues[name],
            worker_id,
            settings.binding_slots,
            evaluator,
            JobProgress(redis),
            texts,
            extractors or Extractors(),
            plugins,
        )
        handler = handler_of(name, needs)
        processors[name] = BatchProcessor(
            queues[name],
            handler,
            reporter,
            random.random,
            traces,
            alone,
            policies[name],
            texts,
        )
    return WorkerProcess(
        redis=redis,
        watch=RedisWatch(redis, mark_of(ledger, settings), claims=False),
        processors=processors,
        leases=leases,
        heartbeats=Heartbeats(redis),
        slots=settings.worker_slots,
        lease_slots=settings.lease_slots,
        worker_id=worker_id,
        pid=os.getpid(),
        crons=CronRunner(tools, worker_id, {**CRONS, **schedules_of(plugins)}),
        host=socket.gethostname(),
        version=version("rotulus"),
        spans=None if traces is None else traces.spans,
        now_s=lambda: ledger.host.now_us() / 1_000_000,
    )
