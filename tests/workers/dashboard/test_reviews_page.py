"""The page of reviews: words beside what was read, decisions by item, two reviewers at once."""

import json
import re
from html import unescape
from typing import Any

import pytest

from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.store.tables import TableQuery
from kernel.rollback.envelopes import scope_of
from tests.kernel.build import create
from tests.kernel.every import dated, own
from tests.kernel.held import a_conflict, an_operation_of_version_1_5
from tests.workers.api.door import SESSION, URL, Door, source
from tests.workers.api.test_rollbacks import accept

pytestmark = [pytest.mark.anyio, pytest.mark.spec("§13.6")]

HOSTILE = "<script>alert(1)</script>\u202e\"'><img src=x>"
TEXT = f"🙂 The motion is GRANTED. {HOSTILE}"


@pytest.fixture
async def reviewing(door: Door) -> Door:
    """A gateway with three observations that wait, each read from a word of a source."""
    await door.declare(SESSION, "a", "b")
    await door.operate(source("s-1", TEXT))
    span = {"source_ref": "s-1", "offset": TEXT.index("GRANTED"), "length": len("GRANTED")}
    for name in ("o-1", "o-2", "o-3"):
        stated = {"disposition": "granted", "lifecycle_state": "observed", "source_spans": [span]}
        date = dated("docket_entry_date")
        await accept(door, own("court_disposition_observation_write", name, **stated, **date))
    return door


async def shown(door: Door, kind: str = "observation", **query: str) -> str:
    answer = await door.http.get("/reviews", params={"kind": kind, **query})
    assert answer.status_code == 200, answer.text
    return answer.text


async def submit(door: Door, page: str, decide: str, origin: str = URL, **changes: Any) -> Any:
    """Send the form of a page as a browser does, by one of its buttons."""
    hidden = re.findall(r'<input type="hidden" name="([a-z]+)" value="([^"]*)">', page)
    fields: dict[str, Any] = {}
    for name, value in hidden:
        fields.setdefault(name, []).append(unescape(value))
    fields |= {"decide": decide, "reason": "I have read it", "name": "ada", **changes}
    return await door.http.post("/reviews/decide", data=fields, headers={"Origin": origin})


def states(ledger: Ledger) -> dict[str, str]:
    with ledger.view() as view:
        rows = view.tables.scan(TableQuery(schema.court_disposition_observations))
        names = [row["observation_id"] for row in rows]
        records = [view.record(schema.court_disposition_observations, name) for name in names]
    pairs = zip(names, records, strict=True)
    return {name: record["payload"]["lifecycle_state"] for name, record in pairs if record}


async def test_words_are_marked_beside_what_was_read_of_them(reviewing: Door) -> None:
    page = await shown(reviewing)
    assert page.count("<mark>GRANTED</mark>") == 3
    assert "🙂 The motion is <mark>" in page
    assert "nobody stated how sure it is" in page
    assert "the user; rules " in page
    assert 'kind=observation" aria-current="page">What courts decided <b>3</b>' in page
    assert "Nobody has decided anything lately." in page
    for text in ("<script>alert", "<img", "\u202e"):
        assert text not in page
    assert "Nothing of this kind waits." in await shown(reviewing, "conflict")
    # Without a kind, and with one that nobody can mean, it is the first of which anything waits.
    for query in ({}, {"kind": "none", "after": "\x00"}):
        assert "GRANTED" in (await reviewing.http.get("/reviews", params=query)).text


async def test_each_item_is_an_operation_of_its_own(reviewing: Door) -> None:
    page = await shown(reviewing)
    answer = await submit(reviewing, page, "confirm", selected=["0", "2"])
    assert answer.status_code == 303, answer.text
    assert states(reviewing.ledger) == {"o-1": "confirmed", "o-2": "observed", "o-3": "confirmed"}
    following = (await reviewing.http.get(answer.headers["location"].lstrip("."))).text
    assert 'value="ada"' in following
    assert "Done: each item is an operation of its own" in following
    decided = following.partition("Decided lately")[2]
    assert len(set(re.findall(r"/operations/([^\"]+)\"", decided))) == 2
    assert "ada at 127.0.0.1" in decided
    assert "I have read it" in decided
    listed = (await reviewing.http.get("/v1/reviews/decided")).json()["decisions"]
    assert [each["record_id"] for each in listed] == ["o-3", "o-1"]


async def test_what_somebody_else_decided_meanwhile_is_said(reviewing: Door) -> None:
    page = await shown(reviewing)
    assert (await submit(reviewing, page, "confirm 1", name="bea")).status_code == 303
    answer = await submit(reviewing, page, "reject", selected=["0", "1"])
    assert answer.status_code == 409
    assert "1 of 2 not decided" in answer.text
    assert "by bea at 127.0.0.1: I have read it" in answer.text
    assert "review_decided_meanwhile" in answer.text
    assert states(reviewing.ledger) == {"o-1": "withdrawn", "o-2": "confirmed", "o-3": "observed"}


async def test_a_form_that_nobody_can_mean_decides_nothing(reviewing: Door) -> None:
    page = await shown(reviewing)
    refused = [
        (403, await submit(reviewing, page, "confirm 0", "http://elsewhere.test")),
        (422, await submit(reviewing, page, "confirm 0", reason=" ")),
        (422, await submit(reviewing, page, "confirm")),
        (422, await submit(reviewing, page, "explode 0")),
        (422, await submit(reviewing, page, "confirm 9")),
        (422, await submit(reviewing, page, "confirm 0", item="0 x")),
        (422, await submit(reviewing, page, "confirm 0", kind="none")),
        (422, await submit(reviewing, page, "confirm 0", other="x")),
        (413, await submit(reviewing, page, "confirm 0", item="x" * 140_000)),
    ]
    for status, answer in refused:
        assert answer.status_code == status, answer.text
    assert set(states(reviewing.ledger).values()) == {"observed"}


@pytest.mark.spec("§14.4", "INV-K-BATCH-PARTIAL-1")
async def test_memberships_are_reviewed_as_a_batch_that_names_its_reviewer(reviewing: Door) -> None:
    await accept(reviewing, create("n-1", "Note", title="first"))
    page = await shown(reviewing, "membership")
    counts = (await reviewing.http.get("/v1/reviews/counts")).json()
    with reviewing.ledger.view() as view:
        members = view.tables.scan(TableQuery(schema.corpus_membership_records))
    assert len(members) == page.count('<article class="review"') == counts["membership"]
    assert (await submit(reviewing, page, "confirm 0")).status_code == 303
    answer = await submit(reviewing, page, "reject", selected=["0", "1"])
    assert "1 of 2 not decided" in answer.text
    assert "membership_transition_disallowed" in answer.text.replace("<wbr>", "")
    decided = (await shown(reviewing, "membership")).partition("Decided lately")[2]
    assert "0 confirm, 2 reject, 0 defer, 1 failed" in decided
    assert "1 confirm, 0 reject, 0 defer" in decided
    assert "ada at 127.0.0.1" in decided


@pytest.mark.spec("§19.3")
async def test_conflicts_are_taken_or_settled_each_by_itself(reviewing: Door) -> None:
    for name in ("n", "k", "l"):
        a_conflict(reviewing.ledger, name)
    page = await shown(reviewing, "conflict")
    assert "field adapt: n" in page
    assert "would write 1" in page
    assert "cites refs n-a; n-b" in page
    assert page.count(">Take it<") == page.count(">Settle it<") == 3
    assert (await submit(reviewing, page, "reject 1")).status_code == 303
    answer = await submit(reviewing, page, "confirm", selected=["0", "1", "2"])
    assert "1 of 3 not decided" in answer.text
    assert "review_decided_meanwhile" in answer.text.replace("<wbr>", "")
    with reviewing.ledger.view() as view:
        written = {name: view.node(name)["payload"]["cites_refs"] for name in ("n", "k", "l")}
    assert {name: len(refs) for name, refs in written.items()} == {"n": 2, "k": 1, "l": 2}
    following = await shown(reviewing, "conflict")
    assert "Nothing of this kind waits." in following
    assert following.partition("Decided lately")[2].count(">taken</a>") == 2


@pytest.mark.spec("§2.8")
async def test_what_migration_holds_is_taken_with_what_its_reviewer_states(reviewing: Door) -> None:
    an_operation_of_version_1_5(reviewing.ledger)
    page = await shown(reviewing, "migration")
    [lacking] = re.findall(r"<textarea[^>]* name=\"supplied\"[^>]*>([^<]*)<", page)
    assert json.loads(unescape(lacking)) == {"affected_subgraph_descriptor": None}
    refused = await submit(reviewing, page, "confirm 0", supplied="{")
    assert refused.status_code == 422
    assert "is no JSON" in refused.text
    untouched = await submit(reviewing, page, "confirm 0", supplied=unescape(lacking))
    assert "version 1.6 requires" in untouched.text
    stated = json.dumps({"affected_subgraph_descriptor": scope_of(["m"])})
    taken = await submit(reviewing, page, "confirm 0", supplied=stated)
    assert taken.status_code == 303, taken.text
    with reviewing.ledger.view() as view:
        assert view.node("m")["payload"]["title"] == "old"
