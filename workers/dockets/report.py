"""Counts what the rules come to over many dockets, and names what they cannot read.

The rest of a docket is what its newest session has. No docket is left with nothing: where an entry
contradicts what was read before it, what undid the earlier was not read, and the entry is named.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from workers.dockets.course import CONTRADICTED, DocketCourse, Undoing
from workers.dockets.field_map import BY_THEIR_NAMES, FieldMap
from workers.dockets.postures import RULES, posture_kind, universe
from workers.dockets.reader import BadLine, Docket, DocketEntry, Problem, read_dockets
from workers.dockets.reversals import REVERSALS, may_undo
from workers.dockets.rules_petition import ORDER_FOR_RELIEF

PROBLEMS_SHOWN_MAX = 20
UNREAD_MAX = 200
"""Entries that a report names at most; it counts them all."""

WORDS_CHARS_MAX = 120

OUTCOMES = ("one", "several", "none", "unnarrowed")
"""Postures left of a docket: a single one, several but not all, none at all, every one."""


@dataclass(slots=True)
class DocketReport:
    """The counts over the dockets that were read."""

    by_kind: dict[str, Counter[str]] = field(default_factory=dict)
    """For each kind of case, how many dockets have which outcome."""

    only_order_for_relief: int = 0
    """Those among `several` in which nothing else was struck."""

    rules: dict[str, Counter[str]] = field(default_factory=dict)
    """For each rule that read something: the entries it read, its dockets, what it struck first."""

    emptied: list[str] = field(default_factory=list)
    """The dockets with outcome `none`."""

    undone: dict[str, Counter[str]] = field(default_factory=dict)
    """For each reversal that undid something: its entries, its dockets, the strikes that fell."""

    unread: list[dict[str, Any]] = field(default_factory=list)
    """The first entries that no rule can read, each with why."""

    n_unread: int = 0

    problems: Counter[str] = field(default_factory=Counter)
    problem_lines: list[tuple[int, Problem]] = field(default_factory=list)
    """The first problems with their lines, so many as are shown."""

    is_cut_off: bool = False
    """Whether the file, or what was left of it, could not be read as lines."""

    @property
    def outcomes(self) -> Counter[str]:
        """How many dockets have which outcome, over all kinds."""
        return sum(self.by_kind.values(), Counter[str]())

    def document(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        outcomes = self.outcomes
        return {
            "dockets": outcomes.total(),
            **{name: outcomes[name] for name in OUTCOMES},
            "several_by_order_for_relief_alone": self.only_order_for_relief,
            "by_kind": {
                kind: {name: counts[name] for name in OUTCOMES}
                for kind, counts in sorted(self.by_kind.items())
            },
            "rules": {
                rule: {name: counts[name] for name in ("entries", "dockets", "struck")}
                for rule, counts in sorted(self.rules.items())
            },
            "rules_that_read_nothing": [rule.name for rule in RULES if rule.name not in self.rules],
            "reversals": {
                name: {count: counts[count] for count in ("entries", "dockets", "undone")}
                for name, counts in sorted(self.undone.items())
            },
            "reversals_that_undid_nothing": [
                row.name for row in REVERSALS if row.name not in self.undone
            ],
            "emptied": self.emptied,
            "unread_entries": self.n_unread,
            "unread": self.unread,
            "input_problems": dict(self.problems),
        }


def report_on(
    source: BinaryIO | Iterable[bytes], fields: FieldMap = BY_THEIR_NAMES
) -> DocketReport:
    """Read the dockets of a JSON Lines file and apply the rules; bad input is counted."""
    report = DocketReport()
    for docket in read_dockets(source, fields):
        problems = (docket.problem,) if isinstance(docket, BadLine) else docket.problems
        report.problems.update(problem.code for problem in problems)
        room = PROBLEMS_SHOWN_MAX - len(report.problem_lines)
        report.problem_lines += ((docket.line_number, problem) for problem in problems[:room])
        if isinstance(docket, Docket):
            _count(report, docket)
        else:
            report.is_cut_off = report.is_cut_off or docket.is_of_file
    return report


def _count(report: DocketReport, docket: Docket) -> None:
    kind = posture_kind(docket)
    postures = frozenset(universe(kind))
    course = DocketCourse(kind)
    applied: set[str] = set()
    remaining = postures
    for entry in docket.entries:
        acts = course.take(entry)
        for act in acts:
            if isinstance(act, Undoing):
                name, counts = act.name, report.undone.setdefault(act.name, Counter())
                counts.update(entries=1, dockets=int(name not in applied), undone=len(act.undone))
                remaining = postures.difference(
                    *(struck.elimination.strikes for struck in act.carried)
                )
            else:
                strikes = remaining.intersection(act.elimination.strikes)
                name = act.elimination.rule
                counts = report.rules.setdefault(name, Counter())
                counts.update(entries=1, dockets=int(name not in applied), struck=len(strikes))
                remaining -= strikes
            applied.add(name)
        undoings = [act.name for act in acts if isinstance(act, Undoing)]
        if CONTRADICTED in undoings:
            _name(report, docket, entry, "contradicts what was read before it")
        elif course.unclear and course.unclear[-1] is entry:
            _name(report, docket, entry, "contradicts itself")
        elif not undoings and may_undo(entry.description):
            _name(report, docket, entry, "may undo something, and no row says what")
    outcome = _outcome(len(remaining), len(postures))
    report.by_kind.setdefault(kind, Counter())[outcome] += 1
    report.only_order_for_relief += postures - remaining == {ORDER_FOR_RELIEF}
    if outcome == "none":
        report.emptied.append(docket.source_id)


def _name(report: DocketReport, docket: Docket, entry: DocketEntry, why: str) -> None:
    report.n_unread += 1
    if len(report.unread) < UNREAD_MAX:
        words = " ".join(entry.description[:WORDS_CHARS_MAX].split())
        place = {"source_id": docket.source_id, "position": entry.position}
        report.unread.append({**place, "why": why, "words": words})


def _outcome(n_left: int, n_postures: int) -> str:
    if n_left == n_postures:
        return "unnarrowed"
    return {0: "none", 1: "one"}.get(n_left, "several")
