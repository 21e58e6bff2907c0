"""Every effect kind writes its record, or says why not; the fold of the log gives the same."""

import itertools

import pytest

from kernel.algebra.effects import EFFECT_KINDS
from kernel.algebra.transitions import STATES, TRANSITIONS
from kernel.algebra.verbs import (
    BATCH_REVIEW,
    BELIEF_ANCHOR,
    ENQUEUE,
    IMPLICATION_HALT,
    IMPLICATION_RESUME,
    IMPLICATION_RUN,
    KEY_HANDOVER,
    LANDSCAPE_SEAL,
    OPERATOR_VERBS,
    RECEIPTS_SEAL,
    REPORT_VERB,
    REVIEW_DISCARD,
    SEMANTIC_VERBS,
    THOUGHT_VERBS,
)
from kernel.ledger import schema
from kernel.ledger.applied_effects import effect_of
from kernel.ledger.store.tables import TableQuery
from kernel.records.appliers import APPLIERS
from kernel.records.court_dispositions import LIFECYCLE
from kernel.records.external import EXTERNAL_QUEUE
from kernel.records.extraction import TRANSITIONS as EXTRACTION
from kernel.records.membership_transitions import Trigger
from kernel.verify import verify
from tests.kernel.build import (
    ABSENT,
    changed,
    code_of,
    create,
    effect,
    envelope,
    memory_ledger,
    submit_answered,
)
from tests.kernel.build import submit as submit_as
from tests.kernel.every import HASH, attempt, dated, every_kind, move, own

FIRST = "primitive_effects.0"


def submit(ledger, *documents):
    return submit_as(ledger, *documents, submitter="orchestrator")


def accept(ledger, *documents):
    for document in documents:
        assert code_of(submit(ledger, document)) is None, document


@pytest.fixture(scope="module")
def used():
    """A ledger on which every kind was used."""
    ledger = memory_ledger()
    *others, last = every_kind()
    accept(ledger, *others)
    assert code_of(submit_answered(ledger, last, b"what a model said")) is None
    return ledger


@pytest.fixture
def ledger():
    ledger = memory_ledger()
    accept(ledger, create("n", "Note"), create("topic", "Topic"))
    return ledger


def record(ledger, table, key):
    with ledger.view() as view:
        return view.record(table, key)


@pytest.mark.spec("K15")
def test_every_kind_and_every_verb_has_a_valid_envelope():
    named = {kind["effect_kind"] for kind in every_effect()}
    spoken = {document["semantic_intent"] for document in every_kind()}
    assert named == set(EFFECT_KINDS)
    assert spoken == SEMANTIC_VERBS.keys() - {
        *("recalculate_authority", REPORT_VERB, REVIEW_DISCARD, BATCH_REVIEW, ENQUEUE),
        *(BELIEF_ANCHOR, IMPLICATION_RUN, IMPLICATION_HALT, IMPLICATION_RESUME),
        LANDSCAPE_SEAL,
        *THOUGHT_VERBS,
        *OPERATOR_VERBS,
        *(KEY_HANDOVER, RECEIPTS_SEAL),
    }
    assert APPLIERS.keys() == {kind.canonical for kind in EFFECT_KINDS.values()}


def every_effect():
    return [
        primitive_effect
        for document in every_kind()
        for primitive_effect in document["primitive_effects"]
    ]


@pytest.mark.spec("K15", "§4.2")
def test_each_effect_writes_the_store_that_the_registry_names(used):
    with used.view() as view:
        rows = view.tables.scan(TableQuery(schema.applied_effects))
    documents = [effect_of(row) for row in rows]
    assert {document["effect_kind"] for document in documents} == set(EFFECT_KINDS)
    for document in documents:
        assert document["store"] == EFFECT_KINDS[document["effect_kind"]].store
        assert document["canonical_kind"] == EFFECT_KINDS[document["effect_kind"]].canonical


@pytest.mark.spec("K2")
def test_a_ledger_that_used_every_kind_verifies(used):
    with used.view() as view:
        verification = verify(view)
        assert all(view.tables.count(TableQuery(table)) for table in schema.STATE_TABLES)
    assert verification.findings == ()
    assert verification.rows == len(every_kind())


@pytest.mark.spec("K15")
def test_every_envelope_without_its_target_or_its_payload_is_refused():
    """Each is refused in the place of the course where it would otherwise be accepted."""
    ledger, refused = memory_ledger(), set()
    for document in every_kind():
        primitive_effects = document["primitive_effects"][0]
        bare = {f"{FIRST}.receipt_subkind": "gossip", f"{FIRST}.target_ref": ABSENT}
        spoiled = changed(
            {
                **document,
                "primitive_effects": [
                    primitive_effects | {"target_ref": "t"},
                    *document["primitive_effects"][1:],
                ],
            },
            bare,
        )
        assert code_of(submit(ledger, spoiled)) is not None
        if primitive_effects["payload"] and primitive_effects["effect_kind"] not in (
            "node_write",
            "receipt_only",
        ):
            empty = changed(document, {f"{FIRST}.payload": {}})
            if primitive_effects.get("compensating_operation_kind"):
                kinds = EFFECT_KINDS[primitive_effects["effect_kind"]].compensations
                empty = changed(empty, {f"{FIRST}.compensating_operation_kind": kinds[0]})
            result = submit(ledger, empty)
            assert code_of(result) is not None, primitive_effects
            refused.add(primitive_effects["effect_kind"])
        accept(ledger, document)
    assert len(refused) > 25


# External effects


@pytest.mark.spec("K19", "§4.3.9")
def test_what_is_to_happen_outside_is_asked_for_and_not_done(used):
    external = [kind for kind in every_effect() if "external_effect_descriptor" in kind]
    with used.view() as view:
        requests = view.open_requests(queue=EXTERNAL_QUEUE)
        for request in requests:
            row = view.log_row_of(request.item_key)
            assert row["ec_sequence_number"] == request.cause_sequence
    assert [open_request.document["effect_kind"] for open_request in requests] == [
        external_effect["effect_kind"] for external_effect in external
    ]
    assert {open_request.document["effect_kind"] for open_request in requests} == {
        kind.name
        for kind in EFFECT_KINDS.values()
        if kind.reversibility == "irreversible_external_effect"
    }


# Memberships

WAYS = {
    None: [],
    "candidate": [],
    "confirmed": [("candidate", "confirmed", "user_confirm_event")],
    "rejected": [("candidate", "rejected", "user_reject_event")],
    "soft_deleted": [
        ("candidate", "confirmed", "user_confirm_event"),
        ("confirmed", "soft_deleted", "user_delete_event"),
    ],
    "policy_blocked": [
        ("candidate", "confirmed", "user_confirm_event"),
        ("confirmed", "policy_blocked", "policy_change_blocking"),
    ],
}


def in_state(ledger, state):
    if state is not None:
        add = effect("membership_write", "n", corpus_id="c")
        accept(ledger, envelope("corpus_membership_add", [add]))
    accept(ledger, *(move("n", *step) for step in WAYS[state]))


@pytest.mark.spec("§4.3.19")
@pytest.mark.parametrize("step", list(itertools.product(WAYS, STATES)))
def test_every_pair_of_states_is_a_transition_or_refused(ledger, step):
    in_state(ledger, step[0])
    standing = record(ledger, schema.corpus_membership_records, "c|n")
    trigger = TRANSITIONS[step].triggered_by[0] if step in TRANSITIONS else "user_confirm_event"
    result = submit(ledger, move("n", step[0] or "candidate", step[1], trigger))
    if step in TRANSITIONS and step != ("policy_blocked", "candidate"):
        assert code_of(result) is None
        after = record(ledger, schema.corpus_membership_records, "c|n")
        assert (after["state"], after["version"]) == (step[1], standing["version"] + 1)
        made = record(ledger, schema.membership_state_transitions, f"c|n|{after['version']}")
        assert (made["from_state"], made["to_state"], made["triggered_by"]) == (*step, trigger)
    else:
        assert code_of(result) == "membership_transition_disallowed"
        assert record(ledger, schema.corpus_membership_records, "c|n") == standing


@pytest.mark.spec("§4.3.19")
@pytest.mark.parametrize("step", TRANSITIONS)
@pytest.mark.parametrize("trigger", Trigger.__args__)
def test_a_transition_happens_by_its_triggers_alone(ledger, step, trigger):
    in_state(ledger, step[0])
    if step == ("policy_blocked", "candidate"):
        return  # from confirmed it was blocked, and there it goes back
    legal = trigger in TRANSITIONS[step].triggered_by
    expected = None if legal else "membership_trigger_invalid"
    if (step[0], trigger) == ("policy_blocked", "policy_change_unblocking") and not legal:
        expected = "membership_transition_disallowed"
    assert code_of(submit(ledger, move("n", *step, trigger))) == expected


@pytest.mark.spec("§4.3.19")
def test_blocking_and_unblocking_confirms_nothing(ledger):
    in_state(ledger, "candidate")
    accept(ledger, move("n", "candidate", "policy_blocked", "policy_change_blocking"))
    confirms = move("n", "policy_blocked", "confirmed", "policy_change_unblocking")
    assert code_of(submit(ledger, confirms)) == "membership_transition_disallowed"
    accept(ledger, move("n", "policy_blocked", "candidate", "policy_change_unblocking"))


@pytest.mark.spec("§4.3.19")
def test_a_transition_names_the_operation_that_leads_back_from_it_and_no_other(ledger):
    in_state(ledger, "candidate")
    document = move("n", "candidate", "confirmed", "user_confirm_event")
    for name in EFFECT_KINDS:
        spoiled = changed(document, {f"{FIRST}.compensating_operation_kind": name})
        result = submit(ledger, spoiled)
        if name == "membership_state_transition_reject_and_re_propose":
            assert code_of(result) is None
            return
        assert code_of(result) == "envelope_effect_reversibility_invalid"


# Policies


@pytest.mark.spec("§4.3.17", "§2.2 V5")
def test_a_new_generation_is_in_force_at_once_and_a_reverted_one_no_longer(ledger):
    advance = own("policy_snapshot_advance", "PG-2", prior_policy_generation_id="PG-1")
    stale = create("late", "Note")
    results = submit(ledger, advance, stale)
    assert [code_of(result) for result in results] == [None, "envelope_policy_generation_stale"]
    current = {"policy_generation_id": "PG-2"}
    results = submit(
        ledger,
        create("now", "Note", envelope=current),
        own("policy_snapshot_revert", "PG-2") | current,
        create("again", "Note", envelope=current),
        create("before", "Note"),
    )
    expected = [None, None, "envelope_policy_generation_stale", None]
    assert [code_of(result) for result in results] == expected
    third = own("policy_snapshot_advance", "PG-3", prior_policy_generation_id="PG-1")
    accept(ledger, third)
    assert record(ledger, schema.policy_snapshots, "PG-3")["generation"] == 3


@pytest.mark.spec("§4.3.17")
def test_a_refused_operation_leaves_the_policy_that_was_in_force(ledger):
    advance = effect("policy_snapshot_advance", "PG-2", prior_policy_generation_id="PG-1")
    broken = envelope("policy_snapshot_advance", [advance, effect("node_write", "nobody")])
    results = submit(ledger, broken, create("next", "Note"))
    assert [code_of(result) for result in results] == ["node_not_found", None]


# Machines as tables


@pytest.mark.spec("§16.3")
@pytest.mark.parametrize(
    "step",
    [
        (a, b)
        for a in ("running", "degraded", "succeeded")
        for b in ("running", "succeeded", "degraded", "abandoned", "cancelled")
    ],
)
def test_an_extraction_follows_its_states(ledger, step):
    def go(transition):
        return submit(ledger, envelope("extraction_state_change", [transition]))

    last = go(attempt(1, "pending", "running"))
    number = 2
    if step[0] != "running":
        last = go(attempt(2, "running", step[0], parent_operation_id=last.operation_id))
        number = 3
    assert code_of(last) is None
    result = go(attempt(number, *step, parent_operation_id=last.operation_id))
    expected = None if step in EXTRACTION else "extraction_state_transition_invalid"
    assert code_of(result) == expected


@pytest.mark.spec("§4.3.13")
@pytest.mark.parametrize("after", ["observed", "confirmed", "superseded", "withdrawn"])
@pytest.mark.parametrize("before", [None, "observed", "confirmed", "superseded", "withdrawn"])
def test_a_court_disposition_lives_in_four_states(ledger, before, after):
    def seen(state):
        dates = dated("docket_entry_date")
        kind = "court_disposition_observation_write"
        return own(kind, "o", disposition="d", lifecycle_state=state, **dates)

    way = {None: [], "observed": ["observed"]}.get(before, ["observed", before])
    accept(ledger, *(seen(state) for state in way))
    expected = None if (before, after) in LIFECYCLE else "court_disposition_transition_disallowed"
    assert code_of(submit(ledger, seen(after))) == expected


# Dates

BAD_DATES = [
    {"filing_date_utc": "2026-02-10"},
    {"filing_date_utc": "2026-02-10T01:30:00+01:00"},
    {"filing_date_utc": "2026-02-30T01:30:00Z"},
    {"filing_date_originating_tz": "somewhere else"},
    {"filing_date_originating_calendar_date": "9 February 2026"},
    {"filing_date_originating_calendar_date": "2026-02-31"},
    {"filing_date_originating_calendar_date": "2026-02-11"},
    {"filing_date_originating_calendar_date": "2026-02-08"},
    {"filing_date_utc": "0001-01-01T00:00:00Z"},
    {"filing_date_utc": None},
]


@pytest.mark.spec("INV-V16-TIMEZONE-1")
@pytest.mark.parametrize("bad", BAD_DATES)
def test_a_filing_date_is_three_fields_that_agree(ledger, bad):
    document = own("filing_unit_write", "u", **dated("filing_date") | bad)
    assert code_of(submit(ledger, document)) == "effect_payload_invalid"


@pytest.mark.spec("K14")
def test_fields_that_no_model_names_are_kept(used):
    unit = record(used, schema.filing_units, "unit")
    assert unit["payload"] == dated("filing_date") | {"unknown": "kept"}
    assert HASH not in str(unit)
