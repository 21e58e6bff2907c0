"""Verification: everything on the record computed again from stored bytes, in one snapshot.

Seven levels, in this order. The first three use none of the code that writes.

S. Schema. Tables, indexes, constraints and triggers are those that this program makes. R. Archive.
Each segment is there, is the file that the ledger names, and holds the rows of its tile. If one
cannot be read the log cannot either, and verification ends there. A. Chains. Log and receipts are
numbered without gaps and linked; every hash is that of the stored bytes; every column repeats its
bytes; every row beside the chains agrees with a chained one. The log's chain is walked twice, by
code that has nothing in common but the hash, and the tree over its rows is computed from them.
Ranges of receipts have the roots that their seals state. B. State. Applying every envelope again
gives the stored effects, receipts, records and requests. C. Belief and thoughts. Every belief
session replays, and the log anchors its newest event. Every chain of thoughts leads to the head,
and every tree to the root, that the log states. The records of every run are those of its groups,
whose newest one receipts state, and those of every run that has a seal are those of its seal. D.
Authorities. Each stored authority is what its inputs give. I. Indexes hold what their tables hold,
and pages are sound, as far as the database can tell.

The table in REFERENCE.md beside this file says what is compared with what, and what is not and why.
A ledger that was put back to an earlier state as a whole, or written anew from some row on, is a
sound ledger: keep `head` elsewhere and expect it.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import islice

from kernel.authority.strategy import BetaPosteriorMean
from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.ledger.store.catalog import NOT_READ, StorageFault
from kernel.ledger.store.tables import PAGE_ROWS, TableQuery
from kernel.model.authority_strategy import AuthorityStrategy
from kernel.values.canonical import GENESIS_HASH
from kernel.verify.archive import ArchivedNames, check_archive
from kernel.verify.authority import AuthorityCheck
from kernel.verify.belief import BeliefCounts, check_belief
from kernel.verify.checked_reading import unchecked_view
from kernel.verify.expected import ExpectedHead, check_expected
from kernel.verify.fold import Fold
from kernel.verify.hash_chains import RECEIPTS, Chain, check_receipts
from kernel.verify.landscape import check_runs
from kernel.verify.links import Walk, walk_log
from kernel.verify.log import LogCheck
from kernel.verify.model_outputs import check_model_outputs, erased_payloads
from kernel.verify.reading import (
    LIMIT_FINDINGS,
    EnoughFindings,
    Finding,
    Findings,
    Reader,
)
from kernel.verify.receipt_seals import check_receipt_seals
from kernel.verify.record_groups import GroupCounts, check_record_groups
from kernel.verify.records import (
    answer_row_hash,
    check_answers,
    check_extra_blobs,
    check_extra_causes,
    check_extra_effects,
    check_extra_receipts,
    check_head,
    check_pre_images,
    check_requests,
)
from kernel.verify.storage import add_faults
from kernel.verify.stretches import Helpers, Walked, join_states, stretches_of
from kernel.verify.thoughts import Elsewhere, ThoughtCounts, check_rounds, check_thoughts
from kernel.verify.tree import TreeCheck
from kernel.verify.undoings import UndoingDifference, undoings_that_differ

UNDOINGS_MAX = 20
"""Records named after an undoing that put back something else than what was in effect."""

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
    receipts_sealed: int = 0
    """The last receipt that is in a range whose root an operation states."""

    receipts_not_under_the_tree: int = 0
    """How many receipts stand behind the last row, which seals those before it."""

    run_groups: int = 0
    """How many groups of records of runs there are: what each transaction wrote of a run."""

    run_groups_not_under_the_tree: int = 0
    """How many of them no receipt states yet, so that no tree head commits to them."""

    rows_archived: int = 0
    """How many of the rows were read from the archive."""

    thoughts_archived: int = 0
    """How many thoughts were read from there."""

    tree_root: str = ""
    """Root of the tree over the rows, where the log was walked to its end without a finding."""
    not_checked: tuple[str, ...] = ()
    """What of the storage could not be compared, and why."""
    undoings_that_differ: tuple[UndoingDifference, ...] = ()
    """Records that an undoing of version 1 of the rules left otherwise than the operations in
    effect come to, the first of them; none where anything was found, or a part was verified."""

    findings: tuple[Finding, ...] = field(default=())
    """The findings in order of discovery: the first names the first bad row."""

    @property
    def head(self) -> str:
        """The newest row's sequence and hash, in the form in which they are expected again."""
        return f"{self.rows}:{self.head_hash}"

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
    expect_head: ExpectedHead | None = None,
    damage: Iterable[StorageFault] = (),
    helpers: Helpers | None = None,
) -> Verification:
    """Compute a snapshot's record again and name the rows that differ, the first one first.

    Nothing stored makes it raise. With `expect_head`, the log must hold that row. `damage` is what
    was wrong with the file before it was opened. It stops at `limit_findings`. Memory is bounded by
    a page of rows and by what the fold holds outside of its file, but for one belief session at a
    time and the commitments of what models answered.
    Without `fold`, level B is left out. `strategy` is the one under which the ledger was written.
    `helpers` walk the log while it is folded here; the findings are the same ones.

    Raises:
        LedgerUnavailable: when the store went away meanwhile.
        VerificationProcessDied: when a helper did.
    """
    limit = max(1, limit_findings)
    view = unchecked_view(view)
    run = _Run(view, Findings(limit), strategy or BetaPosteriorMean(), progress, helpers, limit)
    with suppress(EnoughFindings):
        run.check(damage, expect_head, fold=fold)
    return run.result()


def unreadable(damage: Iterable[StorageFault]) -> Verification:
    """Return the verification of a store that could not be opened, which is all damage."""
    findings = Findings(LIMIT_FINDINGS)
    with suppress(EnoughFindings):
        add_faults(findings, damage)
    return Verification(0, 0, 0, 0, 0, 0, 0, GENESIS_HASH, 0, 0, findings=tuple(findings.entries))


class _Run:
    """The levels in their order, and what they counted."""

    def __init__(
        self,
        view: LedgerView,
        findings: Findings,
        strategy: AuthorityStrategy,
        progress: Progress | None,
        helpers: Helpers | None,
        limit: int,
    ) -> None:
        self._findings = findings
        self._helpers = helpers
        self._limit = limit
        self._answered: int | None = None
        self._strategy = strategy
        self._progress = progress
        self._reader = Reader(view.tables, findings)
        self._receipts = Chain(RECEIPTS, findings)
        self._log = LogCheck(self._reader)
        self._requests = (0, 0)
        self._answers: set[str] = set()
        self._emitted = self._emitted_us = self._receipts_sealed = 0
        self._not_checked: tuple[str, ...] = ()
        self._undoings: tuple[UndoingDifference, ...] = ()
        self._tree_root = ""
        self._archived = 0
        self._view = view
        self._belief = BeliefCounts()
        self._groups = GroupCounts()
        self._thoughts = ThoughtCounts()
        self._authority = AuthorityCheck(self._reader, view, strategy)
        self._done = self._total = 0
        self._passes = 1

    def check(
        self, damage: Iterable[StorageFault], expect_head: ExpectedHead | None, *, fold: bool
    ) -> None:
        findings = self._findings
        add_faults(findings, damage)
        if not self._check_schema() or not self._check_archive():
            return
        with findings.guard(schema.kernel_event_log, "count"):
            self._total = self._reader.count(schema.kernel_event_log)
        helpers = self._begin_helpers() if fold else None
        # Who has helpers only folds; without them the log is walked and then folded.
        self._passes = 2 if fold and helpers is None else 1
        # With helpers this process folds meanwhile; its findings stand behind those of the chains.
        of_the_fold = self._fold() if helpers is not None else []
        if helpers is not None:
            self._take_over(helpers.finish())
        self._check_chains()
        self._check_links()
        if expect_head is not None:
            check_expected(self._reader, expect_head)
        for finding in of_the_fold if helpers is not None else self._fold() if fold else []:
            findings.note(finding)
        with findings.guard(schema.belief_sessions, "sessions"):
            check_belief(self._reader, self._belief)
        with findings.guard(schema.landscape_seals, "runs"):
            check_runs(self._reader, self._view)
        with findings.guard(schema.landscape_record_groups, "groups"):
            self._groups = check_record_groups(self._reader)
        with findings.guard(schema.nodes, "authorities"):
            self._authority.run()
        if not findings.entries:
            with findings.guard(schema.kernel_event_log, "undoings"):
                self._undoings = tuple(islice(undoings_that_differ(self._view), UNDOINGS_MAX))
        # Last: a row that differs is named by its key before its index is named by its entry.
        with findings.guard("ledger", "content"):
            content = self._reader.tables.content_faults()
            self._not_checked = (*content.not_checked, *self._not_read())
            add_faults(findings, content.faults)
        if self._progress is not None:
            self._progress(self._total, self._total)

    def _not_read(self) -> Iterator[str]:
        if earlier := self._groups.earlier_runs:
            yield f"the records of {earlier} runs that are in no group: a gateway takes them in"
        unreadable = len(self._thoughts.unreadable)
        if unreadable:
            yield f"{unreadable} sessions of thoughts: a segment of each cannot be read"
        count = self._thoughts.archived
        if count:
            yield (
                f"what {count} thoughts in the archive say: the files are there, and "
                "`rotulus archive verify` reads them"
            )

    def _begin_helpers(self) -> Helpers | None:
        """Have the log walked elsewhere, where it is long enough for that."""
        helpers, stretches = self._helpers, []
        # A head that cannot be read, or names no number, is found where the head is checked.
        with suppress(Exception):
            head = self._reader.tables.get(schema.chain_head, "main")
            if helpers is not None and head is not None:
                rows, clock_us = head["ec_sequence_number"], head["committed_at_us"]
                stretches = stretches_of(rows, clock_us, helpers.count, helpers.rows_min)
        if helpers is None or not stretches:
            return None
        helpers.begin(stretches)
        return helpers

    def _take_over(self, walked: list[Walked | None]) -> None:
        """Rely on what helpers walked, if that is one walk without a finding."""
        whole = join_states(walked)
        if whole is not None and not self._is_log_longer(whole.ends.sequence):
            self._log.take_over(whole.ends)
            self._answered = whole.answers

    def _is_log_longer(self, sequence: int) -> bool:
        """Tell whether rows stand behind the one that the head names, or cannot be looked for."""
        with suppress(Exception):
            table = schema.kernel_event_log
            return bool(self._reader.tables.scan(TableQuery(table, after=sequence, limit=1)))
        return True

    def _fold(self) -> list[Finding]:
        """Fold the log and return what is found."""
        findings = Findings(self._limit)
        reader = Reader(self._reader.tables, findings)
        with (
            suppress(EnoughFindings),
            findings.guard(schema.kernel_event_log, "fold"),
            closing(Fold(reader, self._strategy)) as folded,
        ):
            folded.run(self._step)
        return findings.entries

    def _check_schema(self) -> bool:
        """Check what holds the rows; tell whether they can be read as rows."""
        with self._findings.guard("ledger", "schema"):
            faults = self._reader.tables.schema_faults()
            add_faults(self._findings, faults)
            if any(fault.rule in NOT_READ for fault in faults):
                return False
        return True

    def _check_archive(self) -> bool:
        """Check what lies in the archive; tell whether the rows there can be read."""
        archive = check_archive(self._reader, self._view.archive)
        self._archived = archive.rows
        if not archive.is_readable:
            reason = "the rows of the log, and what follows from them: a segment cannot be read"
            self._not_checked = (reason,)
        return archive.is_readable

    def _check_chains(self) -> None:
        """Take every step, whatever became of the one before: each looks at other rows."""
        reader, log, findings = self._reader, self._log, self._findings
        with findings.guard(schema.receipts, "chain"):
            self._emitted, self._emitted_us = check_receipts(reader, self._receipts)
        with findings.guard(schema.receipts, "seals"):
            self._receipts_sealed = check_receipt_seals(reader)
        with findings.guard(schema.kernel_event_log, "chain"):
            if self._answered is None:
                log.run(self._step)
        head = reader.get(schema.chain_head, "main")
        if head is None:
            findings.add(schema.chain_head, "main", "missing", "the ledger has no head")
        else:
            with findings.guard(schema.chain_head, "main"):
                self._receipts.finish(head, witness=str(log.receipt_hash))
                log.chain.finish(head, witness=answer_row_hash(reader, log.chain.last))
        with findings.guard(schema.chain_head, "main"):
            check_head(reader, max(log.committed_at_us, self._emitted_us))
        with findings.guard(schema.applied_effects, "count"):
            check_extra_effects(reader, log.effects)
        with findings.guard(schema.causal_parents, "count"):
            check_extra_causes(reader, log.causes)
        with findings.guard(schema.receipts, "count"):
            check_extra_receipts(reader, self._emitted, log.emitted)
        erased = erased_payloads(reader)
        with findings.guard(schema.recorded_model_outputs, "answers"):
            self._answers = check_model_outputs(reader, erased)
        with findings.guard(schema.audit_sessions, "thoughts"):
            elsewhere = Elsewhere(erased, self._view.archive, ArchivedNames(self._view.archive))
            check_thoughts(reader, elsewhere, self._thoughts)
        with findings.guard(schema.rounds, "rounds"):
            check_rounds(reader)
        with findings.guard(schema.blobs, "count"):
            contents = self._thoughts.contents
            check_extra_blobs(reader, log.blobs + contents, self._answers)
        with findings.guard(schema.idempotency_records, "answers"):
            check_answers(reader, head, self._answered)
        with findings.guard(schema.outbox, "requests"):
            self._requests = check_requests(reader, head)
        with findings.guard(schema.pre_images, "contents"):
            check_pre_images(reader)

    def _check_links(self) -> None:
        """Walk the log again the short way; what it finds and the long way did not is a finding."""
        log = self._log.chain
        with self._findings.guard(schema.kernel_event_log, "links"):
            tree = TreeCheck(self._reader, self._limit)
            walk = walk_log(self._reader.tables, tree.add)
            if walk != Walk(log.rows, log.tail_hash) and not self._findings.entries:
                self._findings.add(
                    schema.kernel_event_log,
                    walk.broken_at or walk.rows,
                    "link_broken",
                    "the chain holds when it is read row by row, not when it is walked",
                )
            if walk.broken_at is None:
                root, of_the_tree = tree.finish(self._reader.get(schema.chain_head, "main"))
                self._tree_root = root.hex()
                for finding in of_the_tree:
                    self._findings.note(finding)

    def _step(self) -> None:
        self._done += 1
        if self._progress is not None and self._done % PAGE_ROWS == 0:
            self._progress(min(self._total, self._done // self._passes), self._total)

    def result(self) -> Verification:
        return Verification(
            rows=self._log.chain.rows,
            receipts=self._receipts.rows,
            receipts_sealed=self._receipts_sealed,
            receipts_not_under_the_tree=self._receipts.last - self._log.receipt_position,
            blobs=self._log.blobs + len(self._answers) + self._thoughts.contents,
            belief_sessions=self._belief.sessions,
            belief_events=self._belief.events,
            requests_open=self._requests[0],
            requests_closed=self._requests[1],
            head_hash=self._log.chain.tail_hash,
            authorities_equal=self._authority.counts.equal,
            authorities_pending=self._authority.counts.pending,
            run_groups=self._groups.groups,
            run_groups_not_under_the_tree=self._groups.not_anchored,
            rows_archived=self._archived,
            thoughts_archived=self._thoughts.cold,
            tree_root=self._tree_root,
            not_checked=self._not_checked,
            undoings_that_differ=self._undoings,
            findings=tuple(self._findings.entries),
        )
