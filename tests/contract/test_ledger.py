"""The ledger's vocabulary, whatever store is below it."""

import dataclasses
import hashlib

import pytest
from pydantic import ConfigDict

from kernel.belief.record import BeliefBatch, read_survivors, record_belief
from kernel.ledger import schema
from kernel.ledger.ledger import GENESIS_POLICY, Head, Ledger
from kernel.ledger.receipts import US_PER_DAY, append_receipt, purge_expired
from kernel.ledger.store.tables import DuplicateKey
from kernel.model.receipt import (
    RECEIPT_KINDS,
    Receipt,
    ReceiptBodyInvalid,
    ReceiptRules,
)
from kernel.model.receipt_bodies import ReceiptBody
from kernel.model.rules_version import RULES_VERSION
from kernel.values.canonical import GENESIS_HASH
from kernel.values.errors import LedgerCorrupt
from kernel.values.host import iso_time
from tests.kernel.build import (
    START_US,
    FakeHost,
    abandoned,
    adapt,
    code_of,
    create,
    drain,
    everything,
    findings,
    ledger_on,
    link,
    submit,
    unlink,
)


@pytest.fixture
def founded(store):
    return ledger_on(store)


@pytest.fixture
def ledger(founded):
    return founded[0]


def head_of(ledger):
    with ledger.view() as view:
        return view.head()


# Genesis and the head


@pytest.mark.spec("K20")
def test_a_new_ledger_has_a_head_before_everything_and_a_policy_in_force(ledger):
    with ledger.view() as view:
        assert view.head() == Head(0, "0" * 64, 0, "0" * 64, 0, 0)
        assert view.policy_generation_id() == GENESIS_POLICY
        assert view.tables.get(schema.policy_snapshots, GENESIS_POLICY) == {
            "policy_generation_id": GENESIS_POLICY,
            "generation": 1,
            "in_force": 1,
            "record": b'{"generation":1,"payload":{},"policy_generation_id":"PG-1",'
            b'"state":"effective","version":1}',
        }
    rows = everything(ledger)
    assert {name for name, stored in rows.items() if stored} == {"chain_head", "policy_snapshots"}


def test_founding_again_changes_nothing(place):
    ledger, _ = ledger_on(place.open())
    submit(ledger, create("n", "Note"))
    before = everything(ledger)
    ledger.close()
    later = FakeHost()
    later.time_us += 10**9
    assert everything(Ledger.create(place.open(), later.host)) == before


def test_a_ledger_without_its_head_is_corrupt(store):
    ledger = Ledger(store, FakeHost().host)
    with pytest.raises(LedgerCorrupt), ledger.view() as view:
        view.head()
    with pytest.raises(LedgerCorrupt), ledger.transaction():
        pass


def test_the_head_is_kept_with_the_transaction_that_advanced_it(ledger):
    with ledger.transaction() as transaction:
        transaction.head_now.ec_sequence_number = 7
        transaction.head_now.row_hash = "a" * 64
        assert transaction.head() is transaction.head_now
    assert head_of(ledger) == Head(7, "a" * 64, 0, GENESIS_HASH, 0, 0)
    with abandoned(ledger.transaction()) as transaction:
        assert transaction.head_now.ec_sequence_number == 7
        transaction.head_now.ec_sequence_number = 8
        transaction.write_head()
    assert head_of(ledger).ec_sequence_number == 7


def test_a_savepoint_takes_the_head_back_with_the_writes(ledger):
    with ledger.transaction() as transaction:
        transaction.next_commit_time_us()
        kept = append(transaction, "kept")
        before = dataclasses.replace(transaction.head())
        with abandoned(transaction.savepoint()):
            append(transaction, "undone")
            with transaction.savepoint():
                transaction.head_now.ec_sequence_number = 9
        assert transaction.head() == before == transaction.head_now
        assert transaction.head().receipt_hash == kept
        with transaction.savepoint():
            append(transaction, "kept too")
        assert transaction.head().receipt_sequence == 2
    assert [row["receipt_id"] for row in everything(ledger)["receipts"]] == ["kept", "kept too"]
    assert head_of(ledger).receipt_sequence == 2


def test_a_view_belongs_to_one_sequence(ledger):
    submit(ledger, create("a", "Note"))
    with ledger.view() as view:
        assert view.head().ec_sequence_number == 1
        assert [row["operation_id"] for row in view.log_rows()] == [
            row["operation_id"] for row in view.log_tail(5)
        ]


# Time


def test_each_commit_is_later_than_the_one_before_even_if_the_clock_is_not(founded):
    ledger, fake = founded
    times = []
    for clock_us in (START_US, START_US, START_US - 10**9, START_US + 50, START_US + 50):
        fake.time_us = clock_us
        with ledger.transaction() as transaction:
            times.append(transaction.next_commit_time_us())
            assert transaction.head().committed_at_us == times[-1]
    assert times == [START_US + n for n in (0, 1, 2, 50, 51)]


# Blobs


def test_a_blob_is_kept_under_a_commitment_to_its_salt_length_and_content(ledger):
    with ledger.transaction() as transaction:
        blob_ref = transaction.put_blob(b"content")
        other = transaction.put_blob(b"content")
    assert blob_ref != other, "a commitment says nothing about equal content"
    with ledger.view() as view:
        assert view.blob(blob_ref) == view.blob(other) == b"content"
        salt = view.tables.get(schema.blobs, blob_ref)["salt"]
    assert len(salt) == 32
    framed = b"rotulus/payload/v1\x00" + salt + (7).to_bytes(8, "big") + b"content"
    assert blob_ref == hashlib.sha256(framed).hexdigest()


def test_an_erased_blob_reads_as_none_and_so_does_its_envelope(ledger):
    result = submit(ledger, create("n", "Note"))
    with ledger.transaction() as transaction:
        row = transaction.log_row_of(result.operation_id)
        erased = {
            "ec_sequence_number": 2,
            "operation_id": "erased",
            "prior_row_hash": "1",
            "row_hash": "2",
            "envelope_payload_blob_ref": "3" * 64,
        }
        transaction.tables.insert(schema.kernel_event_log, row | erased)
    with ledger.view() as view:
        assert view.blob("3" * 64) is None
        assert view.envelope("erased") is None
        assert view.envelope("nobody's") is None
        assert view.envelope(result.operation_id) is not None


# Receipts


class AnyBody(ReceiptBody):
    """Where a receipt goes does not depend on what it says."""

    model_config = ConfigDict(extra="allow")


ANY_BODY = ReceiptRules(
    RULES_VERSION,
    {kind: dataclasses.replace(row, body=AnyBody) for kind, row in RECEIPT_KINDS.items()},
)


def append(transaction, receipt_id, kind="search_run_record", operation_id=None, **body):
    receipt = Receipt(kind, body)
    return append_receipt(transaction, receipt_id, receipt, operation_id, rules=ANY_BODY)


@pytest.mark.spec("§17.6")
def test_a_receipt_goes_where_its_retention_class_says(ledger):
    sequence = head_of(ledger).receipt_sequence
    for kind in RECEIPT_KINDS:
        with ledger.transaction() as transaction:
            append(transaction, f"r:{kind}", kind, f"op:{kind}", note="n")
        durable = RECEIPT_KINDS[kind].retention == "durable"
        sequence += durable
        assert head_of(ledger).receipt_sequence == sequence, kind
        with ledger.view() as view:
            receipts = view.receipts_of(f"op:{kind}")
            assert [receipt["receipt_kind"] for receipt in receipts] == [kind] * durable
    rows = everything(ledger)
    for table, retention in (("receipts", "durable"), ("ephemeral_receipts", "ephemeral")):
        kept = {row["receipt_id"] for row in rows[table]}
        assert kept == {
            f"r:{kind}" for kind, row in RECEIPT_KINDS.items() if row.retention == retention
        }


def test_a_receipt_kind_nobody_registered_is_not_recorded(ledger):
    with pytest.raises(ReceiptBodyInvalid), ledger.transaction() as transaction:
        append(transaction, "r", "gossip")
    assert everything(ledger)["receipts"] == []


def test_a_receipts_own_fields_cannot_be_overwritten_by_its_body(ledger):
    forged = {
        "receipt_id": "x",
        "receipt_kind": "taint_propagation",
        "operation_id": "x",
        "emitted_at": "x",
        "receipt_sequence": "99",
        "prior_receipt_hash": "x",
        "rules_version": 9,
        "schema_version": 9,
    }
    with ledger.transaction() as transaction:
        append_receipt(transaction, "r", Receipt("search_run_record", forged), "op", rules=ANY_BODY)
    with ledger.view() as view:
        assert view.receipts_of("op") == [
            {
                "receipt_id": "r",
                "receipt_kind": "search_run_record",
                "operation_id": "op",
                "emitted_at": iso_time(0),
                "receipt_sequence": "1",
                "prior_receipt_hash": GENESIS_HASH,
                "rules_version": RULES_VERSION,
                "schema_version": 1,
            }
        ]


def test_a_transaction_that_records_the_same_receipt_twice_fails_as_a_whole(ledger):
    def twice():
        with ledger.transaction() as transaction:
            append(transaction, "r")
            append(transaction, "r")

    with pytest.raises(LedgerCorrupt, match="receipts"):
        twice()
    with ledger.view() as view:
        assert view.head().receipt_sequence == 0
        assert view.receipts_of("op") == []


@pytest.mark.spec("§17.2")
def test_only_ephemeral_receipts_expire_and_not_before_their_time(founded):
    ledger, fake = founded
    with ledger.transaction() as transaction:
        transaction.next_commit_time_us()
        append(transaction, "durable")
        append(transaction, "passing", "authority_recompute_request")
    for later_us, purged in ((0, 0), (US_PER_DAY, 0), (US_PER_DAY + 1, 1)):
        fake.time_us = START_US + later_us
        with ledger.transaction() as transaction:
            assert purge_expired(transaction) == purged
    rows = everything(ledger)
    assert rows["ephemeral_receipts"] == []
    assert [row["receipt_id"] for row in rows["receipts"]] == ["durable"]


# The log


def test_log_rows_come_in_sequence_and_continue(ledger):
    results = submit(ledger, *(create(name, "Note") for name in "abcde"))
    expected = [result.operation_id for result in results]
    with ledger.view() as view:

        def ids(rows):
            return [row["operation_id"] for row in rows]

        assert ids(view.log_rows()) == expected
        assert ids(view.log_rows(after=2, limit=2)) == expected[2:4]
        assert ids(view.log_rows(after=5)) == []
        assert ids(view.log_tail(2)) == [expected[4], expected[3]]
        assert view.log_row_of(expected[2])["ec_sequence_number"] == 3
        assert view.log_row_of("nobody's") is None


def test_an_envelope_is_read_as_it_was_submitted(ledger):
    document = create("n", "Note", title="é")
    submit(ledger, document)
    with ledger.view() as view:
        assert view.envelope(document["operation_id"]) == document


def test_the_policy_in_force_is_the_newest_generation(ledger):
    with ledger.transaction() as transaction:
        for number, name, in_force in ((11, "PG-11", 0), (10, "PG-10", 1), (9, "PG-9", 1)):
            row = {
                "policy_generation_id": name,
                "generation": number,
                "in_force": in_force,
                "record": b"{}",
            }
            transaction.tables.insert(schema.policy_snapshots, row)
        assert transaction.policy_generation_id() == "PG-10"


# Nodes and edges


def test_nodes_of_a_kind_come_by_id_in_pages(ledger):
    submit(ledger, *(create(name, "Note") for name in "cab"), create("d", "Letter"))
    with ledger.view() as view:
        assert view.node("a")["node_kind"] == "Note"
        assert view.node("nobody") is None

        def ids(kind, **page):
            return [node["node_id"] for node in view.nodes_of_kind(kind, **page)]

        assert ids("Note", after=None, limit=10) == ["a", "b", "c"]
        assert ids("Note", after="a", limit=1) == ["b"]
        assert ids("Letter", after=None, limit=10) == ["d"]
        assert ids("Memo", after=None, limit=10) == []


def test_edges_answer_who_feeds_whom(ledger):
    submit(
        ledger,
        create("claim", "VersionedClaim"),
        create("note", "Note"),
        *(create(name, "ConsolidatedUnderstanding") for name in ("cu1", "cu2")),
        link("e3", "cu1", "cu2", "tangential"),
        link("e2", "note", "cu2"),
        link("e1", "claim", "cu2", "supporting"),
    )
    mention = link("e4", "note", "cu1")
    mention["primitive_effects"][0]["payload"]["edge_metadata"] = {}
    submit(ledger, mention)
    with ledger.view() as view:
        assert [edge["edge_id"] for edge in view.input_edges("cu2")] == ["e1", "e2", "e3"]
        assert [*view.input_edges("cu1")] == [], "a mention without essentiality feeds nothing"
        assert [row["edge_id"] for row in view.edges_out_of("note")] == ["e2", "e4"]
        assert view.input_sources("cu2", "ConsolidatedUnderstanding") == ["cu1"]
        assert view.input_sources("cu2", "VersionedClaim") == ["claim"]
    submit(ledger, unlink("e3"))
    with ledger.view() as view:
        assert [edge["edge_id"] for edge in view.input_edges("cu2")] == ["e1", "e2"]
        assert view.input_sources("cu2", "ConsolidatedUnderstanding") == []
        assert [row["edge_id"] for row in view.edges_out_of("cu1")] == ["e3"]


# Requests


def test_requests_are_open_until_they_have_their_outcome(ledger):
    submit(
        ledger,
        create("claim", "VersionedClaim", authority=1),
        create("cu1", "ConsolidatedUnderstanding"),
        create("cu2", "ConsolidatedUnderstanding"),
    )
    submit(ledger, link("e", "claim", "cu1"))
    with ledger.view() as view:
        requests = view.open_requests()
        assert [request.item_key for request in requests] == ["cu1", "cu2", "cu1"]
        assert [request.request_sequence for request in requests] == [1, 2, 3]
        assert [request.cause_sequence for request in requests] == [2, 3, 4]
        assert view.open_requests(after=1, limit=1) == requests[1:2]
        assert view.open_requests_of("authority-recompute", "cu1") == [requests[0], requests[2]]
        assert view.open_requests_of("another-queue", "cu1") == []
        assert view.outcome_of(requests[0].request_id) is None
    assert sorted(drain(ledger)) == ["cu1", "cu2"]
    with ledger.view() as view:
        assert view.open_requests() == []
        assert view.open_requests_of("authority-recompute", "cu1") == []
        assert len(view.request_rows_of("authority-recompute", "cu1")) == 2
        assert {view.outcome_of(request.request_id)["outcome"] for request in requests} == {
            "completed"
        }
        assert view.head().request_sequence == 3


@pytest.mark.spec("K6")
def test_the_live_answer_of_a_key_is_the_one_that_is_not_archived(ledger):
    result = submit(ledger, document := create("n", "Note"))
    key = document["idempotency_key"]
    with ledger.transaction() as transaction:
        assert transaction.live_idempotency_record(key)["row_hash"].hex() == result.row_hash
        assert transaction.live_idempotency_record("another") is None
        transaction.tables.update(schema.idempotency_records, (1,), {"archived": 1})
        assert transaction.live_idempotency_record(key) is None


# Belief


@pytest.mark.spec("B6")
def test_belief_events_are_appended_in_order_and_summed_up(ledger):
    def batch(first, prior, *events):
        return BeliefBatch(
            session_id="s",
            title="t",
            first_index=first,
            prior_event_hash=prior,
            events=tuple((f"id-{name}", f"hash-{name}", name.encode()) for name in events),
            n_universe=20,
            n_survivors=15,
            survivors_shown=["h1", "h2"],
        )

    def anchor(transaction, events):
        record_belief(transaction, events)
        row = {
            "session_id": "s",
            "n_events": events.n_events,
            "head_event_hash": events.head_event_hash,
        }
        moment = {"ec_sequence_number": 1, "anchored_at_us": 1}
        transaction.tables.put(schema.belief_anchors, row | moment)

    with ledger.transaction() as transaction:
        transaction.next_commit_time_us()
        anchor(transaction, batch(0, "0" * 64, "a", "b"))
        anchor(transaction, batch(2, "hash-b", "c"))
        for late in (batch(2, "hash-b", "d"), batch(3, "hash-b", "d"), batch(4, "hash-c", "d")):
            with pytest.raises(DuplicateKey):
                record_belief(transaction, late)
    with ledger.view() as view:
        assert view.belief_events("s") == [b"a", b"b", b"c"]
        assert view.belief_events("another") == []
        summary = view.belief_session("s")
        assert (summary["n_events"], summary["head_event_hash"]) == (3, "hash-c")
        assert (summary["n_universe"], summary["n_survivors"]) == (20, 15)
        assert read_survivors(summary["survivors_shown"]) == ["h1", "h2"]
        assert view.belief_session("another") is None


def test_adapting_a_node_leaves_one_newest_record(ledger):
    submit(ledger, create("n", "Note", title="a"))
    submit(ledger, adapt("n", title="b"), adapt("n", text="c"))
    with ledger.view() as view:
        record = view.record(schema.nodes, "n")
    assert (record["version"], record["payload"]) == (3, {"title": "b", "text": "c"})


# Names


ZEROES = (
    (create("n\x00", "Note"), "envelope_schema_invalid"),
    (create("n", "Note\x00"), "text_not_storable"),
    (create("n", "Note", envelope={"operation_id": "o\x00"}), "envelope_schema_invalid"),
    (create("n", "Note", envelope={"session_id": "s\x00"}), "envelope_schema_invalid"),
    (create("n", "Note", envelope={"idempotency_key": "\x00"}), "envelope_schema_invalid"),
    (link("e", "n", "m\x00"), None),
    (create("n", "Note", title="\x00", text="a literal \\u0000"), None),
)


def test_a_name_with_the_character_zero_is_refused_alike_on_every_store(ledger):
    for number, (document, code) in enumerate(ZEROES):
        refused = code_of(submit(ledger, document))
        if code is None:
            assert refused != "envelope_schema_invalid", document
        else:
            assert refused == code, document
        assert code_of(submit(ledger, create(f"after-{number}", "Note"))) is None
        assert findings(ledger) == ()
