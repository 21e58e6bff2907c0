"""`rotulus review`: a batch from a file of JSON or of lines, shown, and retried."""

import json
from pathlib import Path
from typing import Any, Self

import pytest

from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from tests.kernel.build import FakeHost, accept
from tests.kernel.every import dated, own
from tests.workers.api.test_reviews import batch, item
from tests.workers.cli.command import rotulus
from workers.cli import gateway_call
from workers.environment.data_folder import DataFolder


class Gateway:
    """Remembers what it was sent, and answers that a given number of items failed."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.posted: list[tuple[str, Any]] = []
        self.shown: dict[str, Any] = {}

    def __call__(self, _url: str, **_options: object) -> Self:
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def post(self, path: str, body: Any) -> Any:
        self.posted.append((path, body))
        return {
            "batch_review_id": body.get("batch_review_id"),
            "item_operations": [],
            "failure_count": self.failures,
        }

    async def get(self, path: str) -> Any:
        del path
        return self.shown


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Gateway:
    gateway = Gateway()
    monkeypatch.setattr(gateway_call, "GatewayClient", gateway)
    return gateway


LINES = "\n".join(json.dumps(stated) for stated in (item("a"), item("b", "merge_with", "a")))


@pytest.mark.spec("§14.4")
def test_lines_are_the_items_of_a_batch(gateway: Gateway) -> None:
    for _ in range(2):
        result = rotulus("review", "batch", "--source", "ingested-1", stdin=LINES + "\n\n")
        assert result.exit_code == 0, result.output
    first, second = (body for _, body in gateway.posted)
    assert first == second
    assert first["item_operations"] == [item("a"), item("b", "merge_with", "a")]
    assert first["source_batch_id"] == "ingested-1"


@pytest.mark.spec("§14.4")
def test_a_file_may_hold_the_whole_batch(gateway: Gateway) -> None:
    stated = json.dumps(batch(item("a")), indent=2)
    result = rotulus("review", "batch", "--prior", "BR-0", "--json", stdin=stated)
    assert result.exit_code == 0, result.output
    [(path, body)] = gateway.posted
    assert path == "/v1/reviews/batches"
    assert body == batch(item("a")) | {"prior_batch_review_ref": "BR-0", "schema_version": 1}


def test_it_ends_with_1_where_an_item_failed(gateway: Gateway) -> None:
    gateway.failures = 1
    assert rotulus("review", "batch", "--source", "s", stdin=LINES).exit_code == 1


@pytest.mark.parametrize(
    ("stdin", "problem"),
    [
        ("{", "line 1: not JSON"),
        ("", "item_operations"),
        ('{"disposition": "confirm"}', "item_operations.0.item_membership_id"),
        ('{"disposition": "confirm", "disposition": "reject"}', "json_key_repeated"),
        ("[]", "item_operations.0"),
        ("\n".join([json.dumps(item("a"))] * 300), "at most 200 items"),
        ('{"item_operations": []}', "batch_review_id"),
        (" " * (2 << 20) + LINES, "bytes"),
    ],
)
def test_a_file_that_is_no_batch_sends_nothing(gateway: Gateway, stdin: str, problem: str) -> None:
    result = rotulus("review", "batch", "--source", "s", stdin=stdin)
    assert result.exit_code == 1
    assert problem in result.stderr
    assert gateway.posted == []


def test_lines_have_a_source(gateway: Gateway) -> None:
    result = rotulus("review", "batch", stdin=LINES)
    assert result.exit_code == 2
    assert "--source" in result.stderr
    assert gateway.posted == []


@pytest.mark.spec("INV-K-BATCH-PARTIAL-1")
def test_a_retry_sends_what_failed_and_may_succeed(gateway: Gateway) -> None:
    gateway.shown = batch() | {
        "item_operations": [
            item("a") | {"result": "succeeded"},
            item("b") | {"result": "failed", "retryable": True},
            item("c") | {"result": "failed", "retryable": False},
        ]
    }
    assert rotulus("review", "retry", "BR-1").exit_code == 0
    assert rotulus("review", "retry", "BR-1", "--remediated").exit_code == 0
    assert [body["item_operations"] for _, body in gateway.posted] == [
        [item("b")],
        [item("b"), item("c")],
    ]
    gateway.shown["item_operations"] = [item("a") | {"result": "succeeded"}]
    assert "nothing to retry" in rotulus("review", "retry", "BR-1").stdout


@pytest.mark.spec("§13.6")
def test_the_queue_is_read_from_the_record(data_folder: DataFolder) -> None:
    ledger = Ledger.create(SqliteStore(data_folder.ledger_path), FakeHost().host)
    stated = {"disposition": "granted", "lifecycle_state": "observed", **dated("docket_entry_date")}
    for name in ("o-1", "o-2"):
        accept(ledger, own("court_disposition_observation_write", name, **stated))
    ledger.close()
    result = rotulus("review", "queue", "observation", "--limit", "1")
    assert "observation  o-1\n" in result.stdout
    assert "because nobody stated how sure it is\n  read by the user; rules" in result.stdout
    assert "disposition: granted" in result.stdout
    assert "more: --after o-1" in result.stdout
    rest = rotulus("review", "queue", "observation", "--after", "o-1", "--json")
    assert [item["record_id"] for item in json.loads(rest.stdout)["items"]] == ["o-2"]
    assert rotulus("review", "queue", "outcome", "--after", "x").exit_code == 1
    unknown = rotulus("review", "show", "BR-1")
    assert unknown.exit_code == 1
    assert "batch_review_unknown" in unknown.stderr


@pytest.mark.spec("INV-K-OUTCOME-1")
def test_a_decision_names_who_and_on_what_grounds(gateway: Gateway) -> None:
    arguments = ("review", "decide", "observation", "o-1", "confirm")
    stated = ("--by", "A. Clerk", "--grounds", "read it", "--label", "granted", "--scope", "m-5")
    for _ in range(2):
        assert rotulus(*arguments, *stated).exit_code == 0
    (path, first), (_, second) = gateway.posted
    assert path == "/v1/reviews/decisions"
    assert first == second
    assert first["scope_targets"] == ["m-5"]
    assert rotulus(*arguments, "--by", "A. Clerk").exit_code == 2
    assert rotulus("review", "dismiss", "receipt:1", "--reason", "seen").exit_code == 0
    assert gateway.posted[-1] == (
        "/v1/reviews/dismissals",
        {"receipt_id": "receipt:1", "reason": "seen"},
    )


@pytest.mark.spec("§2.8", "§19.3")
def test_each_item_is_taken_by_itself_with_what_it_lacks(gateway: Gateway, tmp_path: Path) -> None:
    stated = ("--by", "A. Clerk", "--grounds", "read both")
    assert rotulus("review", "take", "receipt:1", "receipt:2", *stated).exit_code == 0
    said = {"decided_by": "A. Clerk", "grounds": "read both", "supplied": {}}
    path = "/v1/reviews/takings"
    assert gateway.posted == [(path, {"receipt_id": f"receipt:{n}", **said}) for n in (1, 2)]
    lacking = tmp_path / "lacking.json"
    lacking.write_text('{"source_refs": ["s"]}')
    supplied = ("--supplied", str(lacking))
    assert rotulus("review", "take", "receipt:3", *stated, *supplied).exit_code == 0
    assert gateway.posted[-1][1]["supplied"] == {"source_refs": ["s"]}
    assert rotulus("review", "take", "receipt:3", "receipt:4", *stated, *supplied).exit_code == 2
    lacking.write_text("[]")
    assert "it is no object" in rotulus("review", "take", "receipt:3", *stated, *supplied).stderr
    assert rotulus("review", "take", *stated).exit_code == 2
