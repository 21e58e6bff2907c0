"""Shows what Redis and the fleet know: queues, gateways, what was set aside, how far a job is."""

import platform
from collections import Counter
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from typing_extensions import TypedDict

from actors.commit.refusal_units import SET_ASIDE
from kernel.model.rules_version import RULES_VERSION
from kernel.values.fleet_protocol import PROTOCOL
from kernel.work.pauses import Pause, pauses_of
from queues.errors import QueueError
from queues.fleet.worker_heartbeats import WorkerBeat
from queues.gateways.shard_mailboxes import SetAside
from queues.queue.queue_view import depths_by_name
from workers.environment.system_host import now_ms
from workers.views.backlog import Backlog, backlog
from workers.views.late_workers import is_late
from workers.views.records import RequestCounts, count_requests
from workers.views.surroundings import FleetServices, RequestServices

FINDINGS_MAX = 500


class DepthDocument(TypedDict):
    """How many items a queue holds."""

    ready: dict[str, int]
    suspended: dict[str, int]
    delayed: int
    in_flight: int
    dead: int
    backlog: Backlog
    oldest_eligible_age_ms: dict[str, int]
    paused: bool
    paused_priorities: list[str]


class QueuesDocument(TypedDict):
    """What the record asks for, what each queue holds, what is paused, and who works.

    Late workers are those of the fleet that missed a beat.
    """

    requests: RequestCounts
    queues: dict[str, DepthDocument]
    pauses: list[Pause]
    workers: list[str]
    fleet: list[WorkerBeat]
    late_workers: list[str]


class GatewayPlace(TypedDict):
    """A gateway that clients may ask directly."""

    gateway: str
    url: str


class GatewaysDocument(TypedDict):
    """The gateways that advertise a URL."""

    gateways: list[GatewayPlace]


class SetAsideDocument(TypedDict):
    """The entries that can be put back, and the newest findings."""

    set_aside: list[SetAside]
    findings: list[dict[str, Any]]


class WaitingDocument(TypedDict):
    """Why a request waits, in a sentence; null where it has its outcome."""

    request_id: str
    state: str
    why: str | None


class ProgressDocument(TypedDict):
    """How far a job is, as its handler says; kept for an hour, and lost with Redis."""

    percent: int | None
    """From 0 to 100; null where nothing is known."""

    note: str


@dataclass(frozen=True, slots=True)
class FleetVersions:
    """What runs: this gateway, and the workers by what each says of itself."""

    gateway: str
    protocol: int
    python: str
    rules: int
    """The version of the rules by which it records."""

    workers: dict[str, int] | None
    """How many workers say that they are of a version; None where Redis does not answer."""

    other_protocols: tuple[str, ...]
    """Workers that speak another protocol, so that nothing of theirs is taken."""


async def fleet_versions(services: RequestServices) -> FleetVersions:
    """Return what this gateway is, and which versions its workers say they are."""
    try:
        beats = await services.work.heartbeats.alive()
    except QueueError:
        beats = None
    counts = None if beats is None else dict(Counter(beat.version or "unknown" for beat in beats))
    others = [beat.worker_id for beat in beats or () if beat.protocol not in (0, PROTOCOL)]
    return FleetVersions(
        version("rotulus"),
        PROTOCOL,
        platform.python_version(),
        RULES_VERSION,
        counts,
        tuple(others),
    )


async def queues_document(services: RequestServices) -> QueuesDocument:
    """Return what the record asks for, what each queue holds, what is paused, and who works."""
    requests, pauses = await services.read(lambda view: (count_requests(view), pauses_of(view)))
    depths = await depths_by_name(services.work.queues)
    beats, at_ms = await services.work.heartbeats.alive(), now_ms()
    return {
        "requests": requests,
        "queues": {
            name: {
                "ready": depth.ready,
                "suspended": depth.suspended,
                "delayed": depth.delayed,
                "in_flight": depth.in_flight,
                "dead": depth.dead,
                "backlog": backlog(depth, requests["open_by_queue"].get(name, 0)),
                "oldest_eligible_age_ms": depth.oldest_eligible_age_ms,
                "paused": depth.paused,
                "paused_priorities": sorted(depth.paused_priorities),
            }
            for name, depth in depths.items()
        },
        "pauses": pauses,
        "workers": [beat.worker_id for beat in beats],
        "fleet": beats,
        "late_workers": [beat.worker_id for beat in beats if is_late(beat, at_ms)],
    }


def gateways_document(fleet: FleetServices) -> GatewaysDocument:
    """Return the living gateways that clients may ask directly, with the URL of each."""
    urls = sorted(fleet.gateway_urls().items())
    return {"gateways": [{"gateway": name, "url": url} for name, url in urls]}


async def set_aside_document(services: RequestServices) -> SetAsideDocument:
    """Return what can be put back, and the newest findings."""
    findings = await services.read(
        lambda view: view.receipts_of_kind(SET_ASIDE, limit=FINDINGS_MAX)
    )
    shards = {int(finding["shard"]) for finding in findings}
    mail = services.fleet.mail
    entries = [] if mail is None else await mail.aside(sorted(shards))
    return {"set_aside": entries, "findings": findings}
