"""Verification: everything on the record computed again from stored bytes, in one snapshot.

Four levels, in this order. The first uses `json` and `hashlib` and none of the code that writes.

A. Chains. Log and receipts are numbered without gaps and linked; every hash is that of the stored
   bytes; every column repeats its bytes; every row beside the chains agrees with a chained one.
   The log's chain is walked twice, by code that has nothing in common but the hash.
B. State. Applying every envelope again gives the stored effects, receipts, records and requests.
C. Belief. Every session replays, and the log anchors its newest event.
D. Authorities. Each stored authority is what its inputs give.

Some columns follow from nothing on the record, so changing them is not seen: the clock of the head
and of summaries (within bounds), when an idempotency key expires, whether a request was given up
as a dead letter or cancelled. A ledger that was put back to an earlier state as a whole is a sound
ledger: compare `head_hash` with a copy kept elsewhere.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from kernel.authority.strategy import AuthorityStrategy, BetaPosteriorMean
from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.verify.authority import AuthorityCheck
from kernel.verify.belief import BeliefCounts, check_belief
from kernel.verify.chains import RECEIPTS, Chain, check_receipts
from kernel.verify.fold import Fold
from kernel.verify.links import Walk, walk_log
from kernel.verify.log import LogCheck
from kernel.verify.model_outputs import check_model_outputs
from kernel.verify.reading import PAGE_ROWS, EnoughFindings, Finding, Findings, Reader
from kernel.verify.records import (
    answered_hash,
    check_answers,
    check_extra_blobs,
    check_extra_effects,
    check_extra_receipts,
    check_head,
    check_pre_images,
    check_requests,
)

LIMIT_FINDINGS = 20

Progress = Callable[[int, int], None]
"""Told how many steps are done, of how many."""


@dataclass(frozen=True, slots=True)
class Verification:
    """What was checked and what was found; counts end where the search did."""

    rows: int
    receipts: int
    blobs: int
    belief_sessions: int
    belief_events: int
    requests_open: int
    requests_closed: int
    head_hash: str
    """SHA-256 of the newest row's bytes, 64 zeros where there is none."""

    authorities_equal: int
    authorities_pending: int
    findings: tuple[Finding, ...] = field(default=())
    """In order of discovery: the first names the first bad row."""

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings


def verify(
    view: LedgerView,
    *,
    progress: Progress | None = None,
    fold: bool = True,
    limit_findings: int = LIMIT_FINDINGS,
    strategy: AuthorityStrategy | None = None,
) -> Verification:
    """Compute a snapshot's record again and name the rows that differ, the first one first.

    Nothing stored makes it raise. It stops at `limit_findings`. Memory is bounded by a page of
    rows, but for the fold, which holds the state, and for one belief session at a time. Without
    `fold`, level B is left out. `strategy` is the one under which the ledger was written.
    """
    run = _Run(view, Findings(max(1, limit_findings)), strategy or BetaPosteriorMean(), progress)
    with suppress(EnoughFindings):
        run.check(fold=fold)
    return run.result()


class _Run:
    """The levels in their order, and what they counted."""

    def __init__(
        self,
        view: LedgerView,
        findings: Findings,
        strategy: AuthorityStrategy,
        progress: Progress | None,
    ) -> None:
        self._findings = findings
        self._strategy = strategy
        self._progress = progress
        self._reader = Reader(view.tables, findings)
        self._receipts = Chain(RECEIPTS, findings)
        self._log = LogCheck(self._reader)
        self._requests = (0, 0)
        self._answers: set[str] = set()
        self._belief = BeliefCounts()
        self._authority = AuthorityCheck(self._reader, view, strategy)
        self._done = self._total = 0

    def check(self, *, fold: bool) -> None:
        self._total = self._reader.count(schema.kernel_event_log) * (2 if fold else 1)
        self._check_chains()
        self._check_links()
        if fold:
            Fold(self._reader, self._strategy).run(self._step)
        check_belief(self._reader, self._belief)
        self._authority.run()
        if self._progress is not None:
            self._progress(self._total, self._total)

    def _check_chains(self) -> None:
        reader, log = self._reader, self._log
        emitted = check_receipts(reader, self._receipts)
        log.run(self._step)
        head = reader.get(schema.chain_head, "main")
        if head is None:
            self._findings.add(schema.chain_head, "main", "missing", "the ledger has no head")
        else:
            with self._findings.guard(schema.chain_head, "main"):
                self._receipts.finish(head, witness=str(log.receipt_hash))
                log.chain.finish(head, witness=answered_hash(reader, log.chain.last))
        check_head(reader, log.committed_at_us)
        check_extra_effects(reader, log.effects)
        check_extra_receipts(reader, emitted, log.emitted)
        self._answers = check_model_outputs(reader)
        check_extra_blobs(reader, log.blobs, self._answers)
        check_answers(reader, head)
        self._requests = check_requests(reader, head)
        check_pre_images(reader)

    def _check_links(self) -> None:
        """Walk the log again the short way; what it finds and the long way did not is a finding."""
        log = self._log.chain
        with self._findings.guard(schema.kernel_event_log, "links"):
            walk = walk_log(self._reader.tables)
            if walk != Walk(log.rows, log.tail_hash) and not self._findings.found:
                self._findings.add(
                    schema.kernel_event_log,
                    walk.broken_at or walk.rows,
                    "link_broken",
                    "the chain holds when it is read row by row, not when it is walked",
                )

    def _step(self) -> None:
        self._done += 1
        if self._progress is not None and self._done % PAGE_ROWS == 0:
            self._progress(self._done, self._total)

    def result(self) -> Verification:
        return Verification(
            rows=self._log.chain.rows,
            receipts=self._receipts.rows,
            blobs=self._log.blobs + len(self._answers),
            belief_sessions=self._belief.sessions,
            belief_events=self._belief.events,
            requests_open=self._requests[0],
            requests_closed=self._requests[1],
            head_hash=self._log.chain.tail_hash,
            authorities_equal=self._authority.counts.equal,
            authorities_pending=self._authority.counts.pending,
            findings=tuple(self._findings.found),
        )
