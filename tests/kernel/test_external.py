"""Effects outside: asked for with their content, and closed by a report that is about them."""

import orjson
import pytest

from kernel.ledger import schema
from kernel.ledger.ledger import Request
from kernel.ledger.store.tables import TableQuery
from kernel.records.content import recorded_content
from kernel.records.external_report import FAILED
from kernel.records.share_links import share_link
from kernel.values.canonical import sha256_hex
from tests.kernel.build import (
    adapt,
    code_of,
    create,
    effect,
    envelope,
    everything,
    findings,
    submit,
    work,
)
from tests.kernel.every import own
from tests.kernel.reports import (
    ARTIFACT,
    AUTHORITY,
    CLOSED,
    LINK,
    REPORTS,
    TEXT,
    TEXT_HASH,
    TOKEN,
    artifact,
    asked_outside,
    grant,
    report,
    revoke,
    spoiled,
)


def accept(ledger, document):
    result = work(ledger, document)
    assert code_of(result) is None, result
    return result


def outcome_of(ledger, request):
    with ledger.view() as view:
        return view.outcome_of(request.request_id)


def every_request(ledger):
    """An effect of each sort: open, open, closed, and a request of another queue."""
    requests = {
        ARTIFACT: asked_outside(ledger, artifact("art")),
        LINK: asked_outside(ledger, grant("link")),
        CLOSED: asked_outside(ledger, artifact("gone")),
    }
    accept(ledger, report(requests[CLOSED], FAILED))
    submit(ledger, create("cu", "ConsolidatedUnderstanding"))
    with ledger.view() as view:
        [authority] = view.open_requests_of("authority-recompute", "cu")
    stated = requests[ARTIFACT].document | {"request_id": authority.request_id}
    requests[AUTHORITY] = Request(authority.request_id, 0, "", "", "", 0, 0, orjson.dumps(stated))
    return requests


# Reports


@pytest.mark.spec("K19")
def test_a_report_closes_its_request_with_a_durable_receipt_and_one_outcome(ledger):
    request = asked_outside(ledger, artifact("art"))
    result = accept(ledger, report(request))

    assert outcome_of(ledger, request) == {
        "request_id": request.request_id,
        "outcome": "completed",
        "operation_id": result.operation_id,
        "closed_sequence": result.ec_sequence_number,
        "closed_at_us": outcome_of(ledger, request)["closed_at_us"],
    }
    with ledger.view() as view:
        assert view.open_requests() == []
        [receipt] = view.receipts_of(result.operation_id)
    assert receipt["receipt_kind"] == "external_effect_performed"
    assert receipt["request_id"] == request.request_id
    assert receipt["original_operation_id"] == request.item_key
    assert receipt["effect_id"] == "document_artifact_write:art"
    assert receipt["written"] == [{"path": "a/b", "sha256": TEXT_HASH, "size_bytes": 3}]
    assert findings(ledger) == ()


@pytest.mark.spec("K19")
def test_a_failure_closes_its_request_as_a_dead_letter(ledger):
    request = asked_outside(ledger, artifact("art"))
    result = accept(ledger, report(request, FAILED))
    assert outcome_of(ledger, request)["outcome"] == "dead_letter"
    with ledger.view() as view:
        [receipt] = view.receipts_of(result.operation_id)
    assert receipt["receipt_kind"] == "external_effect_failed"
    assert receipt["error_code"] == "external_storage_full"
    assert findings(ledger) == ()


@pytest.mark.spec("K19")
@pytest.mark.parametrize(("code", "field", "case"), REPORTS)
def test_a_report_that_is_not_about_an_open_effect_is_refused(ledger, code, field, case):
    which, changes = case
    document = spoiled(every_request(ledger)[which], changes)
    before = everything(ledger)["outbox_outcomes"]

    rejection = work(ledger, document).rejection

    assert (rejection.check, rejection.reason_code, rejection.field) == ("apply", code, field)
    assert everything(ledger)["outbox_outcomes"] == before
    assert findings(ledger) == ()


@pytest.mark.spec("K18", "INV-15.7.8")
@pytest.mark.parametrize("actor", ["user", "system"])
def test_a_caller_may_not_report(ledger, actor):
    request = asked_outside(ledger, artifact("art"))
    result = submit(ledger, report(request) | {"actor": actor})
    assert code_of(result) == "envelope_actor_unauthorized"
    assert outcome_of(ledger, request) is None


@pytest.mark.parametrize("kind", ["external_effect_performed", "external_effect_failed"])
def test_no_other_verb_states_a_report(ledger, kind):
    request = asked_outside(ledger, artifact("art"))
    [primitive_effect] = report(request)["primitive_effects"]
    own = effect("receipt_only", query="q") | {"effect_id": "own"}
    effects = [own, primitive_effect | {"receipt_subkind": kind}]
    document = envelope("search_run_record", effects, actor="system")
    assert code_of(work(ledger, document)) == "receipt_kind_unknown"
    assert outcome_of(ledger, request) is None


def test_a_report_writes_nothing_else(ledger):
    request = asked_outside(ledger, artifact("art"))
    document = report(request)
    document["primitive_effects"] += create("n", "Note")["primitive_effects"]
    assert code_of(work(ledger, document)) == "envelope_verb_decomposition_forbidden_primitive"


def test_verification_sees_an_outcome_that_no_report_gave(ledger):
    request = asked_outside(ledger, artifact("art"))
    with ledger.transaction() as transaction:
        row = {
            "request_id": request.request_id,
            "outcome": "completed",
            "operation_id": None,
            "closed_sequence": 1,
            "closed_at_us": 1,
        }
        transaction.tables.insert(schema.outbox_outcomes, row)
        transaction.tables.update(schema.outbox, (request.request_id,), {"open": 0})
    assert {finding.table for finding in findings(ledger)} >= {"outbox_outcomes"}


# Tokens


def state_and_token(ledger):
    with ledger.view() as view:
        link = share_link(view, "link")
    return link["state"], link.get("token_sha256")


@pytest.mark.spec("§4.3.9", "§4.3.10")
def test_a_link_has_its_tokens_hash_from_its_report_and_is_active_until_it_is_revoked(ledger):
    request = asked_outside(ledger, grant("link"))
    assert state_and_token(ledger) == ("active", None)
    result = accept(ledger, report(request))
    assert state_and_token(ledger) == ("active", sha256_hex(TOKEN.encode()))
    with ledger.view() as view:
        [effect] = view.tables.scan(
            TableQuery(schema.applied_effects, {"ec_sequence_number": result.ec_sequence_number})
        )
    assert (effect["store"], effect["record_key"]) == ("share_links", "link")
    submit(ledger, revoke("link"))
    assert state_and_token(ledger)[0] == "revoked"
    assert findings(ledger) == ()


def test_a_link_whose_token_comes_after_its_revocation_stays_revoked(ledger):
    request = asked_outside(ledger, grant("link"))
    submit(ledger, revoke("link"))
    accept(ledger, report(request))
    assert state_and_token(ledger)[0] == "revoked"
    assert findings(ledger) == ()


@pytest.mark.spec("§4.3.9")
def test_the_token_is_nowhere_on_the_record(ledger):
    accept(ledger, report(asked_outside(ledger, grant("link"))))
    assert TOKEN not in repr(everything(ledger))


# Content


@pytest.mark.spec("§4.3.4")
@pytest.mark.parametrize(
    "stated", [{"content": TEXT}, {"content": None, "content_base64": "SXQgaXMgc28gb3JkZXJlZC4K"}]
)
def test_content_stays_in_the_envelope_and_goes_with_it(ledger, stated):
    request = asked_outside(ledger, artifact("art", **stated))
    with ledger.view() as view:
        assert recorded_content(view, request.document) == TEXT.encode()
        assert (
            not {"content", "content_base64"}
            & view.record(schema.document_artifacts, "art")["payload"].keys()
        )
        blob_ref = view.log_row_of(request.item_key)["envelope_payload_blob_ref"]
    with ledger.transaction() as transaction:
        transaction.tables.delete(schema.blobs, blob_ref)
    with ledger.view() as view:
        assert recorded_content(view, request.document) is None


def test_what_states_no_content_has_none_on_record(ledger):
    request = asked_outside(ledger, artifact("art", content=None))
    with ledger.view() as view:
        assert recorded_content(view, request.document) is None


def test_a_nodes_content_is_what_it_was_when_the_effect_was_decided(ledger):
    submit(ledger, create("n", "Note", content=TEXT))
    request = asked_outside(ledger, artifact("art", content=None, content_node_ref="n"))
    for text in ("changed", "and again"):
        with ledger.view() as view:
            assert recorded_content(view, request.document) == TEXT.encode()
        submit(ledger, adapt("n", content=text))
    assert findings(ledger) == ()


def test_one_that_was_decided_for_other_content_is_refused(ledger):
    submit(ledger, create("n", "Note", content="other"))
    document = own(
        "materialization_emit",
        "m",
        materialized_path="a/b",
        content_hash=TEXT_HASH,
        content_node_ref="n",
    )
    assert code_of(submit(ledger, document)) == "content_hash_mismatch"
