"""`make dockets`: the rules of the dockets as text, from their tables alone.

What it writes is `workers/dockets/README.md`; a test fails when that file says anything else.
"""

import sys
from collections.abc import Iterable
from itertools import groupby

from workers.dockets.claims import ANY_OTHER, CLAIM_CHARS_MAX, DOCUMENT_KINDS
from workers.dockets.postures import RULES, UNIVERSES, universe
from workers.dockets.reader import (
    DESCRIPTION_BYTES_MAX,
    ENTRIES_MAX,
    FIELD_CHARS_MAX,
    LINE_BYTES_MAX,
)
from workers.dockets.rule import Rule

HEAD = """# Dockets

Lines of court dockets become plans of what to decide. The package is pure: bytes go in, frozen
dataclasses come out; it uses no network, no queue, no ledger and no clock. Of the project outside
this folder it imports `kernel/json_text.py`, and nothing else. `make dockets` writes this file.

| File | What it holds |
|---|---|
| `reader.py` | `read_dockets(lines)`: a `Docket` or a `BadLine` for each line not blank |
| `rule.py`, `rules_*.py` | what a rule is; the rules as tables, a file for a family of cases |
| `postures.py` | the universes of postures, and what a rule may infer and what not |
| `claims.py` | `claim_of(description)`, `visibility_class(description)` |
| `plan.py` | `plan_docket(docket)`: the declaration, and the steps of each entry in order |
| `report.py` | `report_on(lines)`: how far dockets narrow, and by which rules |
| `sample.py`, `sample.jsonl` | four dockets, 104 entries, with letters for people's names |
"""

MEASURED = """`rotulus dockets report FILE` counts. Over 319 dockets of 2010 and around (246 of
them bankruptcies, many a few days old):

| Left | Dockets |
|---|---|
| one posture | 34 |
| several | 230, of which 85 lost nothing but `awaiting_order_for_relief` |
| none | 6: five dismissals and one discharge that the court took back |
| all | 49: complaints, single motions and claims in old large cases, a petition under chapter 15 |

Of twice forty dockets drawn at random, every elimination was read against its entry, and each had
its ground there. Later acts undid some: a reinstated case in each draw, a judgment that was
reversed, a mandate that was recalled.
"""

LIMITATIONS = """## Limitations

- Rules read clerks' set phrases as some courts write them. An act in other words is missed, and
  nothing is struck then. Free text of judges is not interpreted.
- An entry is read by itself. "Order granting 12 Motion" strikes nothing unless it says what
  motion 12 asked.
- A discharge that is revoked, or a dismissal that is taken back, leaves no survivor. A
  confirmation that is vacated is not restored, and a remand from an appeal does not reopen the
  phases before the judgment. A second appeal after a mandate is not seen.
- With several defendants, a civil case leaves `awaiting_service` and `awaiting_answer` at the
  first of them, and a criminal case is followed for defendant (1); names without numbers cannot
  be told apart. Joint debtors are one debtor.
- Entries filed and entered on the same day keep the order of the line. A source that lists the
  newest first has its same-day entries reversed.
- A document whose access is restricted without the word "seal" is `public_open`.
- The authority of a document is that of its kind; whether a filing was struck or corrected later
  does not lower it.
- A motion to dismiss and a motion for summary judgment are struck as pending only by what comes
  after them for good (a trial, a judgment, an ending); an order on such a motion leaves them,
  because another may follow.
- A judgment that an appeal reverses stays an ending, and a mandate on an interlocutory appeal
  ends `on_appeal` although another appeal may follow.
- A case under chapter 15 has no order for relief, and the postures of the universe do not fit it;
  no rule reads its petition.
- Rules for a transfer out of bankruptcy, the beginning of a trial, verdicts, acquittals, the
  dismissal or transfer of a prosecution, reversals, denied petitions, transferred appeals and the
  two generic ones are tested on invented texts only: the dockets on which the rules were measured
  hold no such act in their words.
"""


def text() -> str:
    """Return the file."""
    parts = [HEAD, *_reading(), *_universes(), *_rules(), MEASURED, *_claims(), LIMITATIONS]
    return "\n".join(parts)


def _reading() -> Iterable[str]:
    yield "## Limits\n"
    yield "| Limit | Value |"
    yield "|---|---|"
    yield f"| line | {LINE_BYTES_MAX >> 20} MiB |"
    yield f"| entries of a docket | {ENTRIES_MAX:,} |"
    yield f"| description | {DESCRIPTION_BYTES_MAX >> 10} KiB of UTF-8 |"
    yield f"| any other text field | {FIELD_CHARS_MAX:,} characters |"
    yield ""


def _universes() -> Iterable[str]:
    yield "## Universes\n"
    yield "The hypothesis space of a plan is `case-postures/<kind>`.\n"
    yield "| Kind | Postures |"
    yield "|---|---|"
    for kind, postures in UNIVERSES.items():
        yield f"| `{kind}` | {_names(postures)} |"
    yield ""


def _rules() -> Iterable[str]:
    yield "## Rules\n"
    yield "| Rule | Kinds | Strikes | Because |"
    yield "|---|---|---|---|"
    for rule in RULES:
        yield f"| `{rule.name}` | {', '.join(rule.court_kinds)} | {_struck(rule)} | {rule.reason} |"
    yield ""


def _struck(rule: Rule) -> str:
    kept = [name for name in universe(rule.court_kinds[0]) if name not in rule.strikes]
    return f"all but {_names(kept)}" if len(kept) < len(rule.strikes) else _names(rule.strikes)


def _claims() -> Iterable[str]:
    yield "## Claims\n"
    yield (
        f"The claim of an entry is its first sentence, or as much as {CLAIM_CHARS_MAX} characters "
        "hold, word for word. Its weight follows from how the entry opens:\n"
    )
    yield "| Document | Essentiality | Authority |"
    yield "|---|---|---|"
    kinds = sorted(
        (*DOCUMENT_KINDS, ANY_OTHER), key=lambda kind: (-kind.authority, kind.essentiality)
    )
    for (essentiality, authority), alike in groupby(
        kinds, key=lambda kind: (kind.essentiality, kind.authority)
    ):
        names = ", ".join(kind.name for kind in alike)
        yield f"| {names} | {essentiality} | {authority} |"
    yield ""


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    sys.stdout.write(text())
