"""Runs periodic work of a fleet, each once in its period whatever the number of workers.

A worker claims the period of a cron in Redis and runs it. Redis may forget a claim, so a second run
of any cron changes nothing: the ledger recognises what it would write. Sweeps run where the writer
is, so a cron that writes posts to the gateway.

How far the audit of the chains has come is a mark in Redis, a hint: without it the audit begins at
the beginning. A period looks at 100,000 rows at most and says when it is behind. A worker that
finds something reports the mark; the gateway looks itself, records the same findings once, and is
not ready from then on.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import anyio
import anyio.to_thread
import structlog

from kernel.ledger.ledger import Ledger
from kernel.values.errors import LedgerUnavailable
from kernel.verify.recent import ROWS_MAX, AuditMark, audit_since
from kernel.work.attempts import waits_by_another
from kernel.work.retry_policy import RetryPolicy
from queues.errors import QueueError
from queues.fleet.cron_claims import CronFiring, Crons
from queues.queue.work_queue import WorkQueue
from queues.redis.decoding import Field, fields, matching, records, whole
from queues.redis.dropped import count_dropped
from workers.client.errors import GatewayError
from workers.plugins.cron_expression import CronExpression
from workers.worker.absence import Absence
from workers.worker.gateway_reports import GatewayReporter

CHAIN_AUDIT = "chain-audit"
RETENTION_SWEEP = "retention-sweep"
DECAY_TICK = "decay-tick"
LOG_ARCHIVAL = "log-archival"
RETRY_POLICIES = "retry-policies"
POLICY_PAGES_MAX = 40
"""Pages of a queue's waiting requests that get another policy in one period."""

ARCHIVALS_MAX = 20
"""Calls of an archival in one period, each of a few segments; the rest is the next period's."""

AUDITS_MAX = 5
"""Pages of an audit in one period; a record that grows faster is audited later."""

NOTE_EVERY_S: Final = 10.0
"""A cron that runs more often says no more often that it ran."""

RETRY_FIRST_S: Final = 1.0
RETRY_MAX_S: Final = 60.0
"""Pauses of a worker before it runs a cron again that failed."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CronTools:
    """The services that a cron works with."""

    queues: Mapping[str, WorkQueue]
    ledger: Ledger
    reporter: GatewayReporter
    crons: Crons
    policies: Mapping[str, RetryPolicy] = field(default_factory=dict)
    """By queue, the policy by which what failed waits for its next attempt."""


@dataclass(frozen=True, slots=True)
class Cron:
    """One cron job: its interval, or the times that begin its periods, and its function."""

    every_s: int
    """Of one with times of its own: how long a period stays claimed at least, halved."""

    run: Callable[[CronTools], Awaitable[None]]
    offset_s: int = 0
    times: CronExpression | None = None

    def period_at(self, now_s: float) -> int:
        """Return the number of the period that a time belongs to."""
        if self.times is not None:
            return self.times.newest(now_s)
        return (int(now_s) - self.offset_s) // self.every_s

    def start_s(self, period: int) -> int:
        """Return when a period begins, in seconds since 1970."""
        return period if self.times is not None else period * self.every_s + self.offset_s

    def next_s(self, now_s: float) -> int:
        """Return when the next period begins, in seconds since 1970."""
        if self.times is not None:
            return self.times.following(now_s)
        return self.start_s(self.period_at(now_s) + 1)


async def reap(tools: CronTools) -> None:
    """Return the claims of workers that died to their queues."""
    for queue in tools.queues.values():
        returned = await queue.reap()
        if returned:
            _log.info("claims_expired", queue=queue.name, items=returned)


async def sweep_retention(tools: CronTools) -> None:
    """Let the gateway delete what is kept for a time and whose time is over."""
    answer = await tools.reporter.post(f"/internal/crons/{RETENTION_SWEEP}", {})
    _log.info("retention_swept", **answer["result"])


async def archive_log(tools: CronTools) -> None:
    """Let the gateway move old rows of the log to the archive, if it has a place for one."""
    for _ in range(ARCHIVALS_MAX):
        answer = await tools.reporter.post(f"/internal/crons/{LOG_ARCHIVAL}", {})
        _log.info("log_archived", **answer["result"])
        if answer["result"]["is_complete"]:
            return
    _log.info("log_archival_goes_on_later")


async def tick_decay(tools: CronTools) -> None:
    """Let the gateway ask for the recomputes that are due tonight (T3); a day has one tick."""
    answer = await tools.reporter.post("/v1/authority/tick", {})
    _log.info("decay_ticked", **answer)


async def audit_chain(tools: CronTools) -> None:
    """Check what was recorded since the last audit; the gateway records what is wrong with it."""
    mark = _mark(await tools.crons.recall(CHAIN_AUDIT))
    for _ in range(AUDITS_MAX):
        audited = await anyio.to_thread.run_sync(tools.ledger.read, partial(audit_since, mark=mark))
        if not audited.mark_fits:
            _log.warning("chain_audit_mark_dropped", ec_sequence_number=mark.ec_sequence_number)
            count_dropped("chain_audit_mark")
        if not audited.verification.ok:
            _log.critical("chain_audit_failed", finding=repr(audited.verification.findings[0]))
            await tools.reporter.post(f"/internal/crons/{CHAIN_AUDIT}", asdict(audited.mark))
            return
        if audited.mark == mark:
            return
        mark = audited.mark
        await tools.crons.remember(CHAIN_AUDIT, asdict(mark))
        if max(audited.verification.rows, audited.verification.receipts) < ROWS_MAX:
            return  # it reached the end; what was written since is the next period's
    _log.warning("chain_audit_behind", ec_sequence_number=mark.ec_sequence_number)


async def follow_policies(tools: CronTools) -> None:
    """Let what waits for its next attempt by an earlier policy wait by the one in force."""
    for queue, policy in tools.policies.items():
        differs = partial(waits_by_another, queue=queue, policy=policy)
        for _ in range(POLICY_PAGES_MAX):
            if not await anyio.to_thread.run_sync(tools.ledger.read, differs):
                break
            body = {"queue": queue, "policy": policy.model_dump()}
            await tools.reporter.post("/internal/retry-policy", body)
            _log.info("retry_policy_followed", queue=queue, version=policy.version)


CRONS: Mapping[str, Cron] = MappingProxyType(
    {
        "reap": Cron(2, reap),
        RETENTION_SWEEP: Cron(3600, sweep_retention),
        CHAIN_AUDIT: Cron(300, audit_chain),
        DECAY_TICK: Cron(86_400, tick_decay),
        LOG_ARCHIVAL: Cron(3600, archive_log),
        RETRY_POLICIES: Cron(30, follow_policies),
    }
)
"""By name. One that has to write posts to the gateway, which has a unit for it by the same name
(`workers/api/routes/cron_jobs.py`), or a route of its own."""


@dataclass(slots=True)
class CronRunner:
    """Runs the crons whose period has come, as far as no other worker does."""

    tools: CronTools
    worker_id: str
    table: Mapping[str, Cron] = field(default_factory=lambda: CRONS)
    _seen: dict[str, int] = field(default_factory=dict)
    """The newest period of each that this worker has looked at."""

    _noted_s: dict[str, float] = field(default_factory=dict)
    """When this worker said of each that it ran."""

    _failures: defaultdict[str, Absence] = field(
        default_factory=lambda: defaultdict(
            lambda: Absence("cron_failed", RETRY_FIRST_S, RETRY_MAX_S)
        )
    )

    async def tick(self, now_s: float) -> None:
        """Run the crons that are due; a period that failed is given back, and tried again later."""
        for name, cron in self.table.items():
            period = cron.period_at(now_s)
            if self._seen.get(name) == period or now_s < self._failures[name].try_at_s:
                continue
            try:
                if name not in self._seen and name not in self._noted_s:
                    await self._note(name, cron, now_s)
                    self._noted_s[name] = 0.0
                claimed = await self.tools.crons.claim(name, period, cron.every_s, self.worker_id)
                if not claimed or await self._ran(name, cron, period, now_s):
                    self._seen[name] = period
            except QueueError as error:  # it is the slots that wait for Redis
                _log.info("cron_without_redis", cron=name, code=error.code)

    async def _note(self, name: str, cron: Cron, now_s: float, **ran: Any) -> None:
        """Say when a cron ran and is due, for whoever looks; one that runs often says so seldom."""
        if ran and now_s < self._noted_s.get(name, 0.0) + NOTE_EVERY_S:
            return
        self._noted_s[name] = now_s
        every_s = 0 if cron.times is not None else cron.every_s
        firing = CronFiring(name, every_s, cron.next_s(now_s), **ran)
        await self.tools.crons.note(firing, is_first=not ran)

    async def _ran(self, name: str, cron: Cron, period: int, now_s: float) -> bool:
        began_s = anyio.current_time()
        try:
            await cron.run(self.tools)
        except (GatewayError, LedgerUnavailable) as error:
            self._failures[name].note_failure(now_s, str(error), cron=name, code=error.code)
            await self.tools.crons.release(name, period)
            return False
        self._failures[name].note_end()
        took_ms = round(1000 * (anyio.current_time() - began_s))
        ran = {"last_s": cron.start_s(period), "worker_id": self.worker_id, "took_ms": took_ms}
        await self._note(name, cron, now_s, **ran)
        return True


_HASH: Final = matching(r"[0-9a-f]{64}")
_MARK: Final = fields(
    {
        "ec_sequence_number": Field(whole(0)),
        "row_hash": Field(_HASH),
        "receipt_sequence": Field(whole(0)),
        "receipt_hash": Field(_HASH),
        "tile_index": Field(whole(0)),
    }
)


def _mark(state: dict[str, Any]) -> AuditMark:
    """Read how far the last audit came; a hint, which the record has to bear out."""
    read = records("chain_audit_mark", [state] if state else [], _MARK)
    return AuditMark(**read[0]) if read else AuditMark()
