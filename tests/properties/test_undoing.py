"""Any course of operations, undoings and undoings of undoings, beside a model of what it comes to.

The model knows nothing of the kernel's code: an operation is in effect unless an undoing in effect
undoes it, and a record is what the writes in effect come to, in the order in which they were done.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.ledger import schema
from kernel.ledger.archive_segment import SEGMENT_ROWS
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.memory import MemoryStore
from kernel.model.result import SubmissionResult
from kernel.rollback.confirmation import Confirmations
from kernel.rollback.errors import RollbackRefused
from kernel.rollback.execute import rollback_epoch, rollback_operation
from kernel.transaction.kernel import Kernel
from kernel.verify import verify
from tests.kernel.archives import archive_next, memory_archive
from tests.kernel.build import (
    FakeHost,
    abandoned,
    adapt,
    create,
    effect,
    envelope,
    informed,
    unlink,
)
from tests.kernel.every import dated, move, own, ruling
from tests.properties.family import BESIDE, FAMILY, NIGHTLY

pytestmark = pytest.mark.spec("§5.2", "§5.3", "K2", "PT-4")

KERNEL = Kernel()
NOBODY = Confirmations({})

Record = dict[str, Any] | None
Change = Callable[[Record], Record]
"""The record after, from the record before; REFUSED where it does not admit the change."""

Place = tuple[str, str]

REFUSED: Record = {"refused": True}


@dataclass
class Done:
    """An operation of the course."""

    name: str
    writes: dict[Place, Change]
    reversible: bool = True
    target: "Done | None" = None
    """What it undoes, or makes up for."""


# The model ---------------------------------------------------------------------------------------


@dataclass
class Model:
    done: list[Done] = field(default_factory=list)

    def counts(self, operation: Done) -> bool:
        """Tell whether it is in effect: no undoing of it is."""
        return not any(self.counts(other) for other in self.done if other.target is operation)

    def record(self, place: Place) -> Record:
        """Return what the operations in effect come to, in the order in which they were done."""
        record: Record = {} if place == TOPIC else None
        for operation in self.done:
            if place in operation.writes and operation.target is None and self.counts(operation):
                record = operation.writes[place](record)
                if record is REFUSED:
                    return REFUSED
        return record

    def may_be_undone(self, operation: Done) -> bool:
        """Tell whether undoing it is taken: nobody in effect wrote its records since."""
        later = self.done[self.done.index(operation) + 1 :]
        return self.counts(operation) and not any(
            self.counts(other) and other.target is None and other.writes.keys() & operation.writes
            for other in later
        )

    def undo(self, operation: Done, name: str) -> Done | None:
        """Return the undoing of an operation; None where it is refused, and nothing is changed."""
        if not self.may_be_undone(operation):
            return None
        undoing = Done(name, operation.writes, operation.reversible, operation)
        root = operation
        while root.target is not None:
            root = root.target
        before = self.counts(root)
        self.done.append(undoing)
        changed = self.counts(root) != before
        if not changed or any(self.record(place) is REFUSED for place in operation.writes):
            self.done.pop()
            return None
        return undoing


# What a course is made of ------------------------------------------------------------------------

X, EDGE, MEMBER = ("nodes", "x"), ("edges", "e"), ("corpus_membership_records", "c|n")
OF_X = ("corpus_membership_records", "corpus:test|x")
ENTRY, VIEW = ("derived_indexes", "i|entry"), ("materialized_views", "view")
UNIT, EVENT = ("filing_units", "unit"), ("case_resolution_events", "event")
ASSIGNED, TOPIC = ("topic_assignments", "a"), ("nodes", "topic")
VERSION, TEXT = ("filing_unit_versions", "v"), ("filing_unit_text_versions", "t")
RELATED, SEEN = ("filing_relationships", "r"), ("court_disposition_observations", "seen")
RULING = ("ruling_dispositions", "ruling")
PLACES = (
    *(X, OF_X, EDGE, MEMBER, ENTRY, VIEW, UNIT, EVENT, ASSIGNED, TOPIC),
    *(VERSION, TEXT, RELATED, SEEN, RULING),
)


def sets(**fields):
    """Fields of a record that is there."""
    return lambda record: REFUSED if record is None else {**record, **fields}


def moves(to, *from_states, **fields):
    """The state of a record, from one of others."""
    return lambda record: (
        REFUSED
        if record is None or record["state"] not in from_states
        else {**record, "state": to, **fields}
    )


def new(**fields):
    """A record that is not there."""
    return lambda record: fields if record is None else REFUSED


def whole(**fields):
    """A record, whatever was there."""
    return lambda _: fields


def joins(record):
    return {"state": "candidate"} if record in (None, {"state": "rejected"}) else REFUSED


def anchors(record):
    anchored = record.get("anchor_state") == "anchored"
    return REFUSED if anchored else {**record, "anchor_state": "anchored"}


def releases(record):
    anchored = record.get("anchor_state") == "anchored"
    return {**record, "anchor_state": "unanchored"} if anchored else REFUSED


def edge_made(record):
    if record is not None and record["state"] == "active":
        return REFUSED
    return {"state": "active", "edge_type": "t"}


def member(verb, to):
    return envelope(verb, [effect("membership_write", "n", corpus_id="c", to_state=to)])


def node(verb, **payload):
    return envelope(verb, [effect("node_write", "x", **payload)])


def edge(kind, **payload):
    ends = {"source_node_id": "n", "target_node_id": "m", "edge_type": "t"}
    return own(kind, "e", **ends, **payload)


def ruling_of(k):
    stated = ruling("granted", ("base",), "base-seen", normalized_label=str(k))
    return {"state": "active", **stated["primitive_effects"][0]["payload"]}


def unit_of(k):
    return {**dated("filing_date"), "note": k}


def event_of(k):
    return {
        "event_kind": "ConsolidationEvent",
        "case_refs": ["1", "2"],
        "resolved_case_identity": str(k),
        **dated("event_date"),
    }


def index_of(k):
    return effect("index_update", "entry", index_name="i", entry={"k": k})


def typed(name, place, kind, payload):
    """Records that are written whole and retracted; `payload` makes one of a number."""
    return {
        name: lambda k: (
            own(f"{kind}_write", place[1], **payload(k)),
            Done("", {place: whole(state="active", **payload(k))}),
        ),
        f"no {name}": lambda _: (
            own(f"{kind}_retract", place[1]),
            Done("", {place: moves("retracted", "active")}),
        ),
    }


def observed(k):
    """A state of an observation's life."""
    state = ("observed", "confirmed", "withdrawn")[k % 3]
    return {"disposition": "granted", "lifecycle_state": state, **dated("docket_entry_date")}


def lives(k):
    """The next state of an observation, where it leads there."""
    stated = observed(k)

    def change(record):
        known = record is not None and record["state"] == "active"
        before = record["lifecycle_state"] if known else None
        if (before, stated["lifecycle_state"]) not in LIFE:
            return REFUSED
        return {"state": "active", **stated}

    return change


LIFE = {
    (None, "observed"),
    ("observed", "observed"),
    ("observed", "confirmed"),
    ("observed", "withdrawn"),
    ("confirmed", "withdrawn"),
}


def related(k):
    """A candidate for a relationship."""
    return {
        "relationship_type": "responds_to",
        "source_filing_unit_id": "base",
        "target_filing_unit_id": "other",
        "lifecycle_state": "candidate",
        "note": k,
    }


def granted(record):
    access = set((record or {}).get("authorized_access", ()))
    if record is None or "u" in access:
        return REFUSED
    return {**record, "authorized_access": sorted({*access, "u"})}


KINDS: dict[str, Callable[[int], tuple[dict[str, Any], Done]]] = {
    "create": lambda k: (
        create("x", "Note", a=k),
        Done(
            "",
            {
                X: new(state="active", visibility="public_open", a=k),
                OF_X: lambda record: {"state": "candidate"} if record is None else REFUSED,
            },
        ),
    ),
    "set a": lambda k: (adapt("x", a=k), Done("", {X: sets(a=k)})),
    "set b": lambda k: (adapt("x", b=k), Done("", {X: sets(b=k)})),
    "set both alike": lambda _: (adapt("x", a=0, b=0), Done("", {X: sets(a=0, b=0)})),
    "set c and the entry": lambda k: (
        envelope("annotate", [effect("node_write", "x", c=k), index_of(k)]),
        Done("", {X: sets(c=k), ENTRY: whole(entry={"k": k})}),
    ),
    "seal": lambda k: (
        own("visibility_change", "x", visibility_class=CLASSES[k % 4]),
        Done("", {X: sets(visibility=CLASSES[k % 4])}),
    ),
    "rescope": lambda k: (
        own("rescope", "x", visibility_scope=f"s{k}"),
        Done("", {X: sets(visibility_scope=f"s{k}")}),
    ),
    "review": lambda k: (
        own("review_disposition", "x", review_disposition=f"r{k}"),
        Done("", {X: sets(review_disposition=f"r{k}")}),
    ),
    "retract": lambda _: (
        envelope(
            "retract",
            [
                effect("node_write", "x", state="retracted"),
                effect("membership_revoke", "x", corpus_id="corpus:test"),
            ],
        ),
        Done(
            "",
            {
                X: moves("retracted", "active", "soft_deleted", "retracted"),
                OF_X: moves("rejected", "candidate"),
            },
        ),
    ),
    "delete": lambda _: (
        envelope(
            "soft_delete",
            [
                effect("node_write", "x", state="soft_deleted"),
                effect("membership_revoke", "x", corpus_id="corpus:test"),
            ],
        ),
        Done(
            "",
            {
                X: moves("soft_deleted", "active", "soft_deleted"),
                OF_X: moves("rejected", "candidate"),
            },
        ),
    ),
    "restore": lambda _: (
        node("restore", state="active"),
        Done("", {X: moves("active", "soft_deleted", "retracted")}),
    ),
    "quarantine": lambda _: (
        own("quarantine", "x", quarantine_reason="doubt"),
        Done(
            "",
            {X: moves("quarantined", "active")},
            reversible=False,
        ),
    ),
    "anchor": lambda _: (own("anchor_node_promotion", "topic"), Done("", {TOPIC: anchors})),
    "release": lambda _: (own("anchor_node_demotion", "topic"), Done("", {TOPIC: releases})),
    "edge": lambda _: (edge("edge_write"), Done("", {EDGE: edge_made})),
    "reclassify": lambda k: (
        envelope(
            "document_relationship_update",
            [effect("edge_reclassify", "e", edge_metadata={f"m{k % 2}": k})],
        ),
        Done("", {EDGE: moves("active", "active", **{f"m{k % 2}": k})}),
    ),
    "remove": lambda _: (
        unlink("e"),
        Done("", {EDGE: moves("removed", "active")}),
    ),
    "join": lambda _: (member("corpus_membership_add", "candidate"), Done("", {MEMBER: joins})),
    "defer": lambda _: (
        member("corpus_membership_defer", "candidate"),
        Done("", {MEMBER: moves("candidate", "candidate")}),
    ),
    "confirm": lambda _: (
        member("corpus_membership_confirm", "confirmed"),
        Done("", {MEMBER: moves("confirmed", "candidate", "soft_deleted")}),
    ),
    "reject": lambda _: (
        member("corpus_membership_reject", "rejected"),
        Done("", {MEMBER: moves("rejected", "candidate", "confirmed")}),
    ),
    "reject for good": lambda _: (
        move("n", "candidate", "rejected", "user_reject_event"),
        Done(
            "",
            {MEMBER: moves("rejected", "candidate")},
            reversible=False,
        ),
    ),
    "entry": lambda k: (
        own("index_revert", "entry", index_name="i", entry={"k": k}),
        Done("", {ENTRY: whole(entry={"k": k})}),
    ),
    "stale": lambda k: (
        envelope(
            "annotate",
            [
                effect("node_write", "topic", note=k),
                effect("materialized_view_invalidation", "view"),
            ],
        ),
        Done("", {TOPIC: sets(note=k), VIEW: whole(stale=True)}),
    ),
    "fresh": lambda _: (
        own("materialized_view_recompute", "view"),
        Done("", {VIEW: whole(stale=False)}),
    ),
    **typed("unit", UNIT, "filing_unit", unit_of),
    **typed("event", EVENT, "case_resolution_event", event_of),
    **typed(
        "version",
        VERSION,
        "filing_unit_version",
        lambda k: {"filing_unit_id": "base", "version_label": str(k), **dated("filing_date")},
    ),
    **typed(
        "text",
        TEXT,
        "filing_unit_text_version",
        lambda k: {"filing_unit_id": "base", "text_hash": f"{k:064x}"},
    ),
    **typed("related", RELATED, "filing_relationship", related),
    "observed": lambda k: (
        own("court_disposition_observation_write", "seen", **observed(k)),
        Done("", {SEEN: lives(k)}),
    ),
    "not observed": lambda _: (
        own("court_disposition_observation_retract", "seen"),
        Done("", {SEEN: moves("retracted", "active")}),
    ),
    "ruling": lambda k: (
        ruling("granted", ("base",), "base-seen", normalized_label=str(k)),
        Done("", {RULING: whole(**ruling_of(k))}),
    ),
    "no ruling": lambda _: (
        own("ruling_disposition_retract", "ruling"),
        Done("", {RULING: moves("retracted", "active")}),
    ),
    "attach": lambda _: (edge("attach_source_binding"), Done("", {EDGE: edge_made})),
    "detach": lambda _: (
        own("detach_source_binding", "e"),
        Done("", {EDGE: moves("removed", "active")}),
    ),
    "prior authority": lambda _: (
        own("node_revert_to_prior_authority", "x"),
        Done("", {X: sets()}),
    ),
    "grant": lambda _: (
        own("authorize_access", "x", grantee="u"),
        Done("", {X: granted}, reversible=False),
    ),
    "assign": lambda k: (
        envelope(
            "topic_assignment_write",
            [
                effect("topic_assignment_write", "a", topic_id="topic", node_id="n"),
                index_of(k),
            ],
        ),
        Done(
            "",
            {
                ASSIGNED: whole(state="active", topic_id="topic", node_id="n"),
                ENTRY: whole(entry={"k": k}),
            },
        ),
    ),
    "no assignment": lambda k: (
        envelope("topic_unassign", [effect("topic_unassign", "a"), index_of(k)]),
        Done("", {ASSIGNED: moves("retracted", "active"), ENTRY: whole(entry={"k": k})}),
    ),
}

CLASSES = ("sealed", "public_open", "firewalled", "work_product_internal")

ALIKE = [
    ["create", "set a", "set b", "set both alike", "set c and the entry", "seal"],
    ["create", "set a", "rescope", "review", "retract", "restore", "delete", "quarantine", "grant"],
    ["edge", "attach", "reclassify", "remove", "detach"],
    ["join", "defer", "confirm", "reject", "reject for good"],
    ["entry", "set c and the entry", "create", "stale", "fresh"],
    ["unit", "no unit", "event", "no event", "assign", "no assignment", "anchor", "release"],
    ["version", "no version", "text", "no text", "related", "no related"],
    ["observed", "not observed", "ruling", "no ruling", "prior authority", "create"],
    [*KINDS],
]
"""Kinds that meet each other on a record; the last has all of them."""

UNDOING = st.tuples(st.just("undo"), st.integers(0, 30), st.sampled_from([1, 1, 2]))


def courses(kinds):
    write = st.tuples(st.just("write"), st.sampled_from(kinds), st.integers(0, 6))
    return st.lists(st.one_of(write, UNDOING, UNDOING), min_size=6, max_size=24)


# The kernel beside it ----------------------------------------------------------------------------


def refusal_of(transaction, document):
    """Why an operation is refused, empty where it is not."""
    result = KERNEL.submit(transaction, informed(transaction, document), "orchestrator")
    return "" if isinstance(result, SubmissionResult) else result.rejection.message


def undone(transaction, operation, tier):
    """The id of the operation that undid one, or why it is not undone."""
    try:
        with transaction.savepoint():
            if tier == 1 and operation.reversible:
                done = rollback_operation(KERNEL, transaction, operation.name)
                return done.submission.operation_id, ""
            done = rollback_epoch(KERNEL, transaction, operation.name, confirmations=NOBODY)
    except RollbackRefused as error:
        return None, f"{error.code}: {error}"
    if done.inverse_operation_ids:
        return done.inverse_operation_ids[0], ""
    return done.compensations_applied[0]["compensating_operation_id"], ""


def shown(view, place):
    """A record as the model has it."""
    record = view.record(schema.STORES[place[0]], place[1])
    if record is None:
        return None
    if place == TOPIC:
        return record["payload"]
    if place[0] == "nodes":
        payload = {n: v for n, v in record["payload"].items() if n != "quarantine_reason"}
        if payload.get("authorized_access") == []:
            del payload["authorized_access"]
        return {"state": record["state"], "visibility": record["visibility_class"], **payload}
    if place[0] == "edges":
        return {
            "state": record["state"],
            "edge_type": record["edge_type"],
            **record["edge_metadata"],
        }
    if place == ENTRY:
        return {"entry": record["entry"]}
    if place == VIEW:
        return {"stale": record["stale"]}
    return {"state": record["state"], **record.get("payload", {})}


class Course:
    """The same steps taken by the kernel and by the model."""

    def __init__(self, transaction):
        self.model = Model()
        for document in (
            *(create("n", "Note"), create("m", "Note"), create("topic", "Topic")),
            *(own("filing_unit_write", unit, **unit_of(0)) for unit in ("base", "other")),
            own("court_disposition_observation_write", "base-seen", **observed(0)),
        ):
            assert not refusal_of(transaction, document)

    def take(self, transaction, step):
        if step[0] == "write":
            document, operation = KINDS[step[1]](step[2])
            operation.name = document["operation_id"]
            self.model.done.append(operation)
            admitted = not any(self.model.record(place) is REFUSED for place in operation.writes)
            if not admitted:
                self.model.done.pop()
            refusal = refusal_of(transaction, document)
            assert (not refusal) == admitted, (step, refusal)
        elif self.model.done:
            operation = self.model.done[step[1] % len(self.model.done)]
            if not operation.reversible and not self.model.may_be_undone(operation):
                return  # it is made up for from wherever the record stands by now
            expected = self.model.undo(operation, "")
            name, refusal = undone(transaction, operation, step[2])
            if name in {operation.name for operation in self.model.done}:
                # The record stands already where making up for it would lead.
                name = None
                if expected is not None:
                    self.model.done.remove(expected)
                    expected = None
            assert (name is not None) == (expected is not None), (step, operation.name, refusal)
            if expected is not None:
                expected.name = name
        for place in PLACES:
            assert shown(transaction, place) == self.model.record(place), (step, place)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def ledgers(request, tmp_path):
    """Makes a new ledger of one kind of store."""
    made = []

    def new_ledger():
        if request.param == "memory":
            store = MemoryStore()
        elif request.param == "sqlite":
            store = SqliteStore(tmp_path / f"{len(made)}.db")
        else:
            from kernel.ledger.postgres.store import PostgresStore  # noqa: PLC0415 - needs the driver

            url, server = (
                request.getfixturevalue("postgres_url"),
                request.getfixturevalue("postgres"),
            )
            if made:
                made[-1].close()
                server.empty(url)
            store = PostgresStore(url)
        made.append(Ledger.create(store, FakeHost().host, memory_archive()))
        return made[-1]

    yield new_ledger
    for ledger in made:
        ledger.close()


TIMEOUT_S = 7200 if NIGHTLY else 300

SHARE = (
    {"memory": 1, "sqlite": 3, "postgres": 6}
    if NIGHTLY
    else {"memory": 1, "sqlite": 5, "postgres": 10}
)
"""Of how many courses a kind of store takes one; all groups together take 450 in memory, and
135,000 on all stores in the nightly profile."""


@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.parametrize("kinds", range(len(ALIKE)), ids=lambda group: ALIKE[group][0])
def test_a_record_is_what_the_operations_in_effect_come_to(ledgers, kinds, request):
    store, ledger = request.node.callspec.params["ledgers"], ledgers()
    examples = FAMILY.max_examples if NIGHTLY else FAMILY.max_examples // 20

    @settings(FAMILY, max_examples=examples // SHARE[store])
    @given(courses(ALIKE[kinds]))
    def on_a_transaction_that_is_abandoned(steps):
        with abandoned(ledger.transaction()) as transaction:
            course = Course(transaction)
            for step in steps:
                course.take(transaction, step)
            if store == "memory":
                transaction.write_head()
                assert verify(transaction).findings == ()

    on_a_transaction_that_is_abandoned()


@pytest.mark.spec("§17.7")
@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT_S)
def test_what_lies_in_the_archive_is_undone_and_brought_back_like_the_rest(ledgers, request):
    share = SHARE[request.node.callspec.params["ledgers"]]

    @settings(BESIDE, max_examples=max(2, BESIDE.max_examples // 25 // share))
    @given(courses([*KINDS]), courses([*KINDS]))
    def across_an_archived_range(before, after):
        ledger = ledgers()
        with ledger.transaction() as transaction:
            course = Course(transaction)
            for step in before:
                course.take(transaction, step)
            for number in range(SEGMENT_ROWS):
                assert not refusal_of(transaction, create(f"further-{number}", "Note"))
        assert archive_next(ledger)
        with ledger.transaction() as transaction:
            for step in after:
                course.take(transaction, step)
        with ledger.view() as view:
            assert verify(view).findings == ()

    across_an_archived_range()
