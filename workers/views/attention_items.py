"""Defines the list of what needs somebody: its kinds, and an item of it, the same at every door.

Rules:

1. An item is data (decision workers/0570). The overview, `rotulus status`, `rotulus top`, HTTP and
   MCP show the same items in the same order and words (`workers/views/attention_rules.py` makes
   them of facts).
2. A kind has a code that stays. `KINDS` says which alerts of deploy/prometheus-alerts.yml are about
   it, or why none is.
3. Every list is bounded; what is left out of it is counted in an item of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal

Severity = Literal["critical", "warning", "notice"]
SEVERITIES: Final[tuple[Severity, ...]] = ("critical", "warning", "notice")
"""Most urgent first: nothing goes on or the record is in danger; work waits or is lost sight of;
somebody should know, or has to decide."""

SubjectKind = Literal[
    "dependency",
    "gateway",
    "halt",
    "ledger",
    "log",
    "priority",
    "process",
    "queue",
    "record",
    "reviews",
    "run",
    "schedule",
    "session",
    "shards",
    "worker",
]

PageName = Literal[
    "fleet",
    "overview",
    "queue",
    "record",
    "requests",
    "reviews",
    "run",
    "schedules",
    "session",
    "worker",
    "workers",
]
"""The pages to which a link may lead; the dashboard knows their paths."""

SENTENCE_CHARS_MAX: Final = 400
ITEMS_OF_KIND_MAX: Final = 12


@dataclass(frozen=True, slots=True)
class AttentionKind:
    """What there is to say of all items of a kind."""

    alerts: tuple[str, ...] = ()
    """The alerts that are about it."""

    why_no_alert: str = ""
    """Why there is none; empty where there is one."""


KINDS: Final[Mapping[str, AttentionKind]] = MappingProxyType(
    {
        "ledger_went_back": AttentionKind(("RotulusLedgerWentBack",)),
        "dependency_away": AttentionKind(("RotulusDependencyDown",)),
        "gateway_not_ready": AttentionKind(
            why_no_alert="a balancer takes it out, and others serve"
        ),
        "part_not_read": AttentionKind(why_no_alert="it is about the gateway that was asked"),
        "commits_stalled": AttentionKind(("RotulusCommitsRolledBack", "RotulusCommitsSlow")),
        "clocks_differ": AttentionKind(("RotulusClocksDiffer",)),
        "record_damaged": AttentionKind(("RotulusRecordDamaged",)),
        "session_corrupt": AttentionKind(("RotulusSessionsCorrupt",)),
        "log_quarantined": AttentionKind(("RotulusRecordDamaged",)),
        "log_diverged": AttentionKind(("RotulusLogDiverged",)),
        "shards_unowned": AttentionKind(("RotulusShardsUnowned",)),
        "workers_missing": AttentionKind(("RotulusNoWorkers",)),
        "process_dies": AttentionKind(why_no_alert="its machine's service manager tells of it"),
        "log_not_published": AttentionKind(("RotulusLogNotPublished",)),
        "checkpoint_refused": AttentionKind(
            why_no_alert="who verifies it alerts, not who signs it"
        ),
        "witnesses_missing": AttentionKind(
            why_no_alert="a policy says how many are enough, no metric"
        ),
        "worker_gone": AttentionKind(
            why_no_alert="RotulusNoWorkers wakes somebody where none is left"
        ),
        "worker_late": AttentionKind(why_no_alert="it is gone, or beats again, within seconds"),
        "queue_paused": AttentionKind(("RotulusQueuePaused",)),
        "priority_late": AttentionKind(("RotulusQueueLate",)),
        "requests_given_up": AttentionKind(("RotulusDeadLettersGrow",)),
        "schedule_overdue": AttentionKind(
            why_no_alert="it is tried again by itself, and its worker logs why it fails"
        ),
        "requests_set_aside": AttentionKind(
            why_no_alert="one request alone, and its session goes on"
        ),
        "counts_differ": AttentionKind(
            why_no_alert="it is seen by comparing two parts of one picture"
        ),
        "implications_halted": AttentionKind(("RotulusImplicationsHalted",)),
        "run_failed": AttentionKind(why_no_alert="who started the run watches its exit code"),
        "run_stuck": AttentionKind(why_no_alert="who started the run watches its exit code"),
        "run_troubled": AttentionKind(why_no_alert="who started the run watches its exit code"),
        "reviews_waiting": AttentionKind(why_no_alert="a person's daily work wakes nobody"),
        "more": AttentionKind(why_no_alert="it counts what the list leaves out"),
    }
)
"""By the code of a kind; within a severity the list has its items in this order."""


@dataclass(frozen=True, slots=True)
class AttentionSubject:
    """Who or what an item is about."""

    kind: SubjectKind
    name: str


@dataclass(frozen=True, slots=True)
class Link:
    """A page with its ids and its query; the dashboard makes an address of it."""

    page: PageName
    ids: tuple[str, ...] = ()
    query: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class AttentionAction:
    """What somebody can do about it."""

    label: str
    """In two or three words, as a button has them."""

    command: str
    """For a terminal."""

    link: Link | None = None
    """The page with the form for it; None where there is none."""


@dataclass(frozen=True, slots=True)
class AttentionItem:
    """Something that needs somebody."""

    kind: str
    severity: Severity
    subject: AttentionSubject
    sentence: str
    """What is the case, without its time and what to do."""

    since: str | None = None
    """Since when, in ISO 8601 and UTC; None where that is not known."""

    link: Link = field(default=Link("overview"))
    action: AttentionAction | None = None

    @property
    def key(self) -> str:
        """What tells it from every other item of a list, and is the same in the next one."""
        return f"{self.kind}:{self.subject.kind}:{self.subject.name}"
