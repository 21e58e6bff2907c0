"""`make dockets`: the rules of the dockets as text, from their tables alone.

What it writes is `workers/dockets/REFERENCE.md`; a test fails when that file says anything else.
"""

import json
import sys
from collections.abc import Iterable
from itertools import groupby

from kernel.model.bindings.selectors import VALUE_MAX
from workers.dockets.claims import ANY_OTHER, CLAIM_CHARS_MAX, DOCUMENT_KINDS
from workers.dockets.dispositions import DISPOSITIONS
from workers.dockets.fields import VALUES_OF_A_FIELD_MAX
from workers.dockets.filing_forms import FORMS, OTHER_FORM
from workers.dockets.motion_types import MOTION_TYPES
from workers.dockets.normalisation import (
    CASE_NUMBER_FORMS,
    CONTENT_TYPES,
    COURT_ID_FORMS,
    NAME_CHARS_MAX,
)
from workers.dockets.postures import RULES, UNIVERSES, universe
from workers.dockets.reader import LIMITS
from workers.dockets.references import CUES, REFERENCES_MAX
from workers.dockets.relationships import CONFIDENCE, RELATIONSHIPS, TARGET_ROLES
from workers.dockets.reversals import EVERY_COURT, REVERSALS
from workers.dockets.rule import Rule

HEAD = """# Dockets

Lines of court dockets become plans of what to decide. The package is pure: bytes go in, frozen
dataclasses come out; it uses no network, no queue, no ledger and no clock. Of the project outside
this folder it imports `kernel/values/errors.py`, `kernel/values/json_lines.py` and
`kernel/model/extraction_result.py`, and nothing else. `make dockets` writes this file.

| File | What it holds |
|---|---|
| `reader.py` | `read_dockets(lines)`: a `Docket` or a `BadLine` for each line not blank |
| `field_map.py` | other people's JSON under the names of a docket's fields |
| `rule.py`, `rules_*.py` | what a rule is; the rules as tables, a file for a family of cases |
| `postures.py` | the universes of postures, and what a rule may infer and what not |
| `reversals.py` | what undoes what, a table by kind of court |
| `course.py` | `DocketCourse(kind)`: what of the strikes holds, entry after entry |
| `claims.py` | `claim_of(description)`, `visibility_class(description)` |
| `plan.py` | `plan_docket(docket)`: the declaration, and the steps of each entry in order |
| `normalisation.py` | `normalise(docket, entry)`: what an entry is, in the terms of selectors |
| `filing_forms.py`, `motion_types.py` | its tables: how entries open, what motions ask for |
| `references.py` | `references(text)`: the documents that an entry names by number |
| `fields.py`, `dispositions.py` | `extract_fields(text)`: eight fields, each with its span |
| `extractor.py` | the same as an `Extractor` |
| `relationships.py` | `RelationshipIndex`: which filing an entry is about |
| `report.py` | `report_on(lines)`: how far dockets narrow, and by which rules |
| `standing_bindings.py`, `bindings.json` | what bindings make of entries and captions, a table |
| `sample.jsonl` | four dockets, 104 entries, with letters for people's names |
"""

EXAMPLE = {
    "source_id": "example/24-10001",
    "court_id": "nysb",
    "court_kind": "bankruptcy",
    "case_name": "In re Example, Inc.",
    "docket_number": "24-10001",
    "date_filed": "2024-01-02",
    "docket_entries": [
        {
            "date_filed": "2024-01-02",
            "date_entered": "2024-01-02T10:15:00",
            "document_number": 1,
            "pacer_seq_no": 3,
            "description": "Chapter 7 Voluntary Petition filed by Example, Inc.",
        }
    ],
}

LINE = f"""## A line

A docket is one JSON object in one line; each of these fields is needed. `court_kind` is one of the
kinds below; of a kind that is none of them, the universe is `generic`.

```json
{json.dumps(EXAMPLE)}
```

Of an entry, `date_filed` and `description` are needed. Dates are by ISO 8601; any other field is
kept out and counts only in the digest of its entry. A file has one such object a line, ended by LF
or CRLF, in UTF-8 and if need be in gzip. Data of another form is read where it stands:

    rotulus ingest cases.jsonl --map source_id=id --map case_name=caption.title \\
      --map docket_entries=events --map docket_entries.description=text \\
      --default court_kind=district
"""

MEASURED = """`rotulus dockets report FILE` counts. Over 319 dockets of 2010 and around (246 of
them bankruptcies, many a few days old):

| Left | Dockets |
|---|---|
| one posture | 32 |
| several | 238, of which 86 lost nothing but `awaiting_order_for_relief` |
| none | 0 |
| all | 49: complaints, single motions and claims in old large cases, a petition under chapter 15 |

Ten of them were undone, and go on in a successor: five cases reinstated, a discharge and a
confirmation vacated, a judgment reversed on appeal, a mandate recalled, a second appeal. Each was
read against its entries. No entry is named as one that may undo something and cannot be read.

Of twice forty dockets drawn at random, every elimination was read against its entry, and each had
its ground there.
"""

MEASURED_FIELDS = """Over the 9,640 entries of those 319 dockets:

| Field | Entries that have it |
|---|---|
| `party` | 5,379 |
| `document_number`, `relates_to` | 4,219, 4,209 |
| `motion` | 3,632 |
| `amount` | 1,174 |
| `disposition` | 941 |
| `deadline` | 909 |
| `judge` | 682 |

Of a form that should say it and does not: `disposition` 184 entries, `party` 169, `relates_to` 43,
`motion` 32, `amount` 5. Of thirty entries drawn at random, 72 of 74 values were right when they
were read against their entry: a company called Judge was taken for a judge, and an entry's own
number for that of another. Both are mended.
"""

MEASURED_RELATIONSHIPS = """`tests/workers/dockets/relationship_sample.jsonl` says by hand of 133
entries which documents of their docket they are about. A link is right where the number is that of
such a document; at 0.5 and more a link counts as asserted, at 0.95 and more it could be confirmed
without a person. A test computes each line:

| Drawn | From | Entries | Right | Wrong | Missed | Precision | Recall |
|---|---|---|---|---|---|---|---|
| held out | 0.5 | 68 | 54 | 2 | 8 | 0.964 | 0.871 |
| held out | 0.95 | 68 | 42 | 1 | 20 | 0.977 | 0.677 |
| tuned | 0.5 | 65 | 40 | 2 | 6 | 0.952 | 0.870 |
| tuned | 0.95 | 65 | 30 | 0 | 16 | 1.000 | 0.652 |

The texts of the sample are shortened; on the full texts of the same entries, and before anything
was changed for it, the part that was held out gave 55 right, 1 wrong and 7 missed.
"""

BINDINGS = """## Standing bindings

`bindings.json` is the table; `rotulus ingest`, `make demo` and `rotulus binding standing` create
what is missing of it. One that somebody has changed or disabled is left as it is.

| Binding | Selects | Makes |
|---|---|---|
| `dockets:observations` | entries that dispose | the observation of what the court did |
| `dockets:filings` | numbered papers of parties | a candidate member of `corpus:docket-filings` |
| `dockets:relationships` | oppositions, responses, replies, rulings | a candidate link |
| `dockets:captions` | the caption of a docket | the name and the court of its case |
| `dockets:extractions` | entries that are not sealed | claims of the fields in the text |

An entry whose text does not say what its target has to state (a ruling without a disposition, a
reply to nothing that can be told) ends as `binding_target_incomplete` and waits for a person. So
does every link below 0.95, without a signature, or with a rival (`rotulus review queue`).

On the sample of 104 entries 163 fires make 10 observations, 15 links, 30 memberships, 4 updates of
cases and 104 extractions with 203 claims; 12 outcomes wait for a person. On 40 of the 319 dockets,
946 entries, 1,456 fires make 110 observations, 92 links, 269 memberships, 40 updates of cases and
945 extractions with 2,821 claims; 122 outcomes wait. An entry leaves about 14 rows of the log.
"""

LIMITATIONS = """## Limitations

- Rules read clerks' set phrases as some courts write them. An act in other words is missed, and
  nothing is struck then. Free text of judges is not interpreted.
- An entry is read by itself. "Order granting 12 Motion" strikes nothing unless it says what
  motion 12 asked.
- What undoes an undoing (an order that vacates the reinstatement) is not read; the next act of the
  court that contradicts what stands is.
- After a remand the postures before the judgment are open again, whatever the mandate says of them,
  and so is `on_appeal`.
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
- A decision that an appeal reverses in part stands.
- A case under chapter 15 has no order for relief, and the postures of the universe do not fit it;
  no rule reads its petition.
- A disposition is the first that the court's entry says, or each that stands before a number; what
  a further sentence decides is not read. A motion is the first that the entry names.
- Names are cut where a word follows that no name has. A company whose name has such a word in it
  is cut short, and a list of names without commas is one name.
- Two motions of a kind that are both open are told apart by the words of their titles alone where
  no number is given; a text under which no words of the motion stand is about nothing then.
- Rules for a transfer out of bankruptcy, the beginning of a trial, verdicts, acquittals, the
  dismissal or transfer of a prosecution, reversals, denied petitions, transferred appeals and the
  two generic ones are tested on invented texts only: the dockets on which the rules were measured
  hold no such act in their words.
"""


def text() -> str:
    parts = [
        HEAD,
        LINE,
        *_reading(),
        *_universes(),
        *_rules(),
        *_reversals(),
        MEASURED,
        *_claims(),
        *_normalisation(),
        *_fields(),
        *_relationships(),
        BINDINGS,
        LIMITATIONS,
    ]
    return "\n".join(parts)


def _reading() -> Iterable[str]:
    yield "## Limits\n"
    yield "| Limit | Value |"
    yield "|---|---|"
    for name, limit in LIMITS:
        yield f"| {name} | {limit} |"
    yield ""
    yield (
        f"What is longer than {NAME_CHARS_MAX} characters stands in ids with its begin and its "
        f"SHA-256; by a value of more than {VALUE_MAX} characters no binding selects.\n"
    )


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


def _reversals() -> Iterable[str]:
    yield "## Reversals\n"
    yield (
        "What a session struck never comes back in it. Where an entry undoes what holds, the "
        "session is closed on the words of the entry, and a successor is declared over the "
        "whole universe with the strikes that hold on (`POST "
        "/v1/sessions/{session_id}/succeed`); the newest session says what stands. An entry "
        "that undoes nothing that holds changes nothing. A later act that leaves no posture "
        "closes the session as well (`contradicted`): what undid the earlier was not read, "
        "and as much as leaves a posture is carried over, the newest first.\n"
    )
    yield (
        "`rotulus ingest` succeeds a session also where the court has changed what it had "
        "docketed (`docket_corrected`): an entry was corrected, removed, marked as an error, or "
        "filed late.\n"
    )
    yield "| Reversal | Kinds | Undoes | Because |"
    yield "|---|---|---|---|"
    for row in REVERSALS:
        kinds = "every" if row.court_kinds == EVERY_COURT else ", ".join(row.court_kinds)
        undone = _names(row.undoes) or "what the entries struck that it names by number"
        yield f"| `{row.name}` | {kinds} | {undone} | {row.reason} |"
    yield ""


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


def _normalisation() -> Iterable[str]:
    yield "## Normalisation\n"
    yield (
        "The first form whose pattern opens the entry decides. What an entry of a form should say "
        "and does not makes its extraction degraded.\n"
    )
    yield "| Form | `filing_unit_kind` | `filing_role` | Should say |"
    yield "|---|---|---|---|"
    for form in (*FORMS, OTHER_FORM):
        kind, role = f"`{form.filing_unit_kind}`", f"`{form.filing_role}`"
        yield f"| {form.name} | {kind} | {role} | {_names(form.expected_fields)} |"
    types = [name for name, _ in MOTION_TYPES]
    yield f"\n`related_motion_type` is one of {_names(types)}, or `other`.\n"
    yield "| Sealed | Numbered | Role | `content_type` |"
    yield "|---|---|---|---|"
    spelled: dict[bool | str | None, str] = {None: "any", True: "yes", False: "no"}
    for *line, kind in CONTENT_TYPES:
        said = [spelled.get(item, f"`{item}`") for item in line]
        yield f"| {' | '.join(said)} | `{kind}` |"
    yield (
        "\n`legal_profile_kind` is the kind of the docket's postures. `case_ref` is `court_id`, a "
        f"colon and the case number, respelled: {', '.join(n for n, _, _ in CASE_NUMBER_FORMS)}. "
        f"`court_id` is in lower case, respelled: {', '.join(n for n, _, _ in COURT_ID_FORMS)}.\n"
    )


def _fields() -> Iterable[str]:
    yield "## Fields\n"
    yield (
        f"At most {VALUES_OF_A_FIELD_MAX} values of a field and {REFERENCES_MAX} references are "
        f"read. A number is a document's behind: {', '.join(name for name, _, _ in CUES)}. A "
        f"disposition is one of {_names(name for name, _ in DISPOSITIONS)}.\n"
    )
    yield MEASURED_FIELDS


def _relationships() -> Iterable[str]:
    yield "## Relationships\n"
    yield "| Role | Relation | About | Else about |"
    yield "|---|---|---|---|"
    for role, relation in RELATIONSHIPS.items():
        first, second = (_names(sorted(roles)) for roles in TARGET_ROLES[relation])
        yield f"| `{role}` | `{relation}` | {first} | {second} |"
    yield "\n| Evidence | `identity_confidence` |"
    yield "|---|---|"
    for evidence, confidence in CONFIDENCE.items():
        yield f"| {evidence} | {confidence} |"
    yield ""
    yield MEASURED_RELATIONSHIPS


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    sys.stdout.write(text())
