"""A row goes by the version of the rules that it seals; a ledger of each version holds for ever."""

import lzma
from contextlib import closing
from dataclasses import replace
from types import MappingProxyType

import orjson
import pytest
from sqlalchemy import CheckConstraint

from kernel.audit.export import export_lines
from kernel.ledger import schema
from kernel.ledger.applied_effects import effects_of
from kernel.ledger.ledger import LEDGER_ID, Ledger
from kernel.ledger.sqlite.schema import migrate
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.memory import MemoryStore
from kernel.ledger.store.tables import TableQuery
from kernel.model.rules_version import RULES_VERSION
from kernel.records.nodes import apply_node_write
from kernel.replay.reproduce import reproduce, reproduce_range
from kernel.rollback.confirmation import Confirmable, Confirmations
from kernel.rollback.errors import RollbackRefused
from kernel.rollback.rebuild import plan_rebuild, prepare_rebuild, rebuild
from kernel.transaction import rules
from kernel.transaction.kernel import Kernel
from kernel.values.canonical import canonicalize, sha256_hex
from kernel.values.errors import EffectInapplicable, RulesVersionUnknown
from kernel.verify import verify
from kernel.verify.export import verify_export
from kernel.verify.recent import AuditMark, audit_since
from tests.kernel.build import FakeHost, adapt, code_of, create, memory_ledger, submit
from tests.kernel.lites import lite, migrated
from tests.kernel.quarantining import audited, lift, ranges, standing
from tests.kernel.tampering import Copy
from tests.ledgers.make import file_of

ARCHITECT = Confirmations({"architect": b"a" * 32})

pytestmark = pytest.mark.spec("K30")


# --- the ledger of each version -----------------------------------------------------------------


@pytest.fixture(scope="module", params=sorted(rules.RULES), ids=lambda number: f"version {number}")
def kept_file(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("kept") / "ledger.db"
    path.write_bytes(lzma.decompress(file_of(request.param).read_bytes()))
    migrate(path)
    return request.param, path


@pytest.fixture
def kept(kept_file, tmp_path):
    version, path = kept_file
    copy = tmp_path / "ledger.db"
    copy.write_bytes(path.read_bytes())
    with closing(Ledger.create(SqliteStore(copy), FakeHost().host)) as ledger:
        yield version, ledger


ANEW = "; `make ledger` writes it anew, which nobody may do once its version was released"


def test_the_ledger_of_a_version_verifies(kept):
    version, ledger = kept
    with ledger.view() as view:
        assert {row["rules_version"] for row in view.log_rows(limit=10_000)} == {version}
        verification = verify(view)
        assert verification.findings == (), ANEW
        assert verification.rows > 100


@pytest.mark.spec("§17.5")
def test_on_the_ledger_of_a_version_a_quarantine_stands_and_is_lifted(kept):
    _, ledger = kept
    change_in(ledger, b"}", b"} ")
    audited(ledger)
    assert ranges(ledger) == ((2, 2),)
    change_in(ledger, b"} ", b"}")
    [quarantine_id] = standing(ledger)
    lift(ledger, quarantine_id)
    assert ranges(ledger) == ()
    with ledger.view() as view:
        assert {row["rules_version"] for row in view.log_tail(1)} == {RULES_VERSION}
        assert verify(view).findings == ()


def change_in(ledger, old, new):
    """Change the second row of a file, behind the kernel's back."""
    copy = Copy(ledger.store._path)  # noqa: SLF001 - nobody else needs it
    row = copy.rows(schema.kernel_event_log)[1]
    copy.set(schema.kernel_event_log, row, row_bytes=row["row_bytes"].removesuffix(old) + new)
    copy.close()


def test_the_ledger_of_a_version_replays(kept):
    with kept[1].view() as view:
        last = view.head().ec_sequence_number
        replayed = list(reproduce_range(view, 1, last))
    assert [replay.difference for replay in replayed if replay.difference is not None] == [], ANEW
    assert sum(replay.applied and not replay.erased for replay in replayed) > 100


def test_the_ledger_of_a_version_is_built_again(kept):
    _, ledger = kept
    # History is held against the records of models' answers, so damage to them is damage to it.
    damaged = [
        table_ for table_ in schema.STATE_TABLES if table_ is not schema.recorded_model_outputs
    ]
    with ledger.transaction() as transaction:
        for table in damaged:
            key = table.primary_key.columns[0].name
            for row in transaction.tables.scan(TableQuery(table, limit=1)):
                transaction.tables.update(table, (row[key],), {"record": b"{}"})
    with ledger.view() as view:
        prepared = prepare_rebuild(Kernel(), view, 0)
    what = Confirmable(3, prepared.plan.scope, prepared.plan.digest)
    token = ARCHITECT.issue("architect", what, confirmation_id="t", now_us=ledger.host.now_us())
    with ledger.transaction() as transaction:
        done = rebuild(
            Kernel(),
            transaction,
            prepared,
            confirmations=ARCHITECT,
            architect_confirmation_token=token,
            archive=[].append,
        )
    assert len(done.plan.differences) >= len(damaged), ANEW
    with ledger.view() as view:
        assert verify(view).ok


def test_the_ledger_of_a_version_is_exported_and_verified(kept, tmp_path):
    path = tmp_path / "export.jsonl"
    with kept[1].view() as view, path.open("wb") as file:
        file.writelines(export_lines(view))
    with path.open("rb") as file:
        assert verify_export(file).ok, ANEW


# --- what a row goes by -------------------------------------------------------------------------


NEXT = RULES_VERSION + 1


def stricter(effect, operation):
    """What a later version may do: refuse what the version before took."""
    if "note" not in effect.payload and operation.semantic_intent == "annotate":
        raise EffectInapplicable("no note", code="note_missing", field="payload.note")
    return apply_node_write(effect, operation)


@pytest.fixture
def next_version(monkeypatch):
    """A program with one more version of the rules, whose notes are written otherwise."""
    newest = rules.RULES[RULES_VERSION]
    appliers = MappingProxyType({**newest.effects.appliers, "node_write": stricter})
    further = replace(newest, version=NEXT, effects=replace_effects(newest.effects, NEXT, appliers))
    monkeypatch.setattr(rules, "RULES", MappingProxyType({**rules.RULES, NEXT: further}))

    def record_by_the_next() -> None:
        for module in ("kernel", "log_row_seal"):
            monkeypatch.setattr(f"kernel.transaction.{module}.CURRENT_RULES", further)

    return record_by_the_next


def replace_effects(effects, version, appliers):
    return type(effects)(version, effects.kinds, appliers)


def test_each_row_is_folded_replayed_and_built_again_by_its_own_version(next_version):
    ledger = memory_ledger()
    plain = adapt("n", title="x") | {"semantic_intent": "annotate", "operation_kind": "annotate"}
    submit(ledger, create("n", "Note"), plain)
    next_version()
    again = adapt("n", title="y") | {"semantic_intent": "annotate", "operation_kind": "annotate"}
    assert code_of(submit(ledger, again)) == "note_missing"
    noted = adapt("n", note="z") | {"semantic_intent": "annotate", "operation_kind": "annotate"}
    assert code_of(submit(ledger, noted)) is None
    with ledger.view() as view:
        assert [row["rules_version"] for row in view.log_rows()] == [
            RULES_VERSION,
            RULES_VERSION,
            NEXT,
        ]
        verification = verify(view)
        assert verification.findings == ()
        assert [replay.difference for replay in reproduce_range(view, 1, 3)] == [None, None, None]
        assert plan_rebuild(Kernel(), view, 0).differences == ()


def test_the_rows_of_a_version_would_not_fold_by_another(next_version, monkeypatch):
    ledger = memory_ledger()
    plain = adapt("n", title="x") | {"semantic_intent": "annotate", "operation_kind": "annotate"}
    submit(ledger, create("n", "Note"), plain)
    monkeypatch.setattr(rules, "RULES", MappingProxyType({RULES_VERSION: rules.RULES[NEXT]}))
    with ledger.view() as view:
        assert {finding.rule for finding in verify(view).findings} >= {
            "state_differs",
            "not_folded",
        }


def test_lite_rows_and_those_that_take_their_place_seal_the_version():
    ledger = memory_ledger()
    migrated(ledger, lite(create("n", "Note")))
    with ledger.view() as view:
        rows = view.log_rows()
        assert len(rows) == 2
        for row in rows:
            assert row["rules_version"] == RULES_VERSION
            assert orjson.loads(row["row_bytes"])["rules_version"] == RULES_VERSION
        assert verify(view).ok


# --- what this program does not know -------------------------------------------------------------


def reseal(ledger, **changes):
    """Rewrite the newest row, and everything that names its hash."""
    with ledger.transaction() as transaction:
        tables, sequence = transaction.tables, transaction.head_now.ec_sequence_number
        row = tables.get(schema.kernel_event_log, sequence)
        content = canonicalize(orjson.loads(row["row_bytes"]) | changes)
        columns = {name: value for name, value in changes.items() if name in row}
        row_hash = sha256_hex(content)
        tables.put(
            schema.kernel_event_log, row | columns | {"row_bytes": content, "row_hash": row_hash}
        )
        answered = {"row_hash": bytes.fromhex(row_hash)}
        tables.update(schema.idempotency_records, (sequence,), answered)
        transaction.head_now.row_hash = row_hash
    return ledger


def later_rules():
    ledger = memory_ledger()
    submit(ledger, create("n", "Note"), adapt("n", title="x"))
    return reseal(ledger, rules_version=RULES_VERSION + 1)


def test_a_row_of_rules_that_are_not_known_is_a_finding_that_says_what_to_do():
    with later_rules().view() as view:
        findings = verify(view).findings
        recent = audit_since(view, AuditMark()).verification.findings
    unknown = [finding for finding in findings if finding.rule == "rules_unknown"]
    assert [(claim.table, claim.key) for claim in unknown] == [("kernel_event_log", "2")]
    assert unknown[0].message == (
        f"row 2 states version {NEXT} of the rules, this program knows 1, 2, 3: use a newer program"
    )
    assert "not_folded" in {finding.rule for finding in findings}
    assert [finding.rule for finding in recent] == ["rules_unknown"]


def test_a_row_of_rules_that_are_not_known_is_not_replayed_and_not_built_on():
    ledger = later_rules()
    with ledger.view() as view:
        operation_id = view.log_tail(1)[0]["operation_id"]
        with pytest.raises(RulesVersionUnknown, match="row 2"):
            reproduce(view, operation_id)
        with pytest.raises(RollbackRefused) as refused:
            plan_rebuild(Kernel(), view, 0)
    assert refused.value.code == "rules_version_unknown"


def test_an_export_with_rules_that_are_not_known_is_a_finding(tmp_path):
    path = tmp_path / "export.jsonl"
    with later_rules().view() as view, path.open("wb") as file:
        file.writelines(export_lines(view))
    with path.open("rb") as file:
        assert verify_export(file).finding.rule == "rules_unknown"


def test_a_ledger_that_a_newer_program_wrote_to_is_not_written_to():
    ledger = later_rules()
    with pytest.raises(RulesVersionUnknown, match=f"version {NEXT}"):
        Ledger.create(ledger.store, ledger.host)


@pytest.mark.parametrize("stated", ["1", 1.5, True, None, 0, -1, [1], 2**70])
def test_a_version_is_a_whole_number_of_the_table(stated):
    assert rules.rules_of(stated) is None


# --- names are data -----------------------------------------------------------------------------


def test_no_database_checks_names():
    # The steps of a pair are held by its database too, from the table that the code reads (§13.2).
    for table in set(schema.metadata.sorted_tables) - {schema.binding_pairs}:
        for check in table.constraints:
            if isinstance(check, CheckConstraint):
                assert "'" not in str(check.sqltext), (table.name, check.sqltext)


@pytest.mark.parametrize("name", ["semantic_intent", "operation_kind"])
@pytest.mark.parametrize("value", ["guess", "", "Create", "create "])
def test_a_verb_or_a_kind_that_nobody_knows_is_a_finding(name, value):
    ledger = memory_ledger()
    submit(ledger, create("n", "Note"))
    with reseal(ledger, **{name: value}).view() as view:
        findings = verify(view).findings
    assert (findings[0].table, findings[0].key) == ("kernel_event_log", "1")
    assert findings[0].rule == "unknown_name"
    assert name in findings[0].message


@pytest.mark.parametrize(
    ("name", "value"),
    [("effect_kind", "guess"), ("store", "elsewhere"), ("canonical_kind", "edge_write")],
)
def test_an_effect_that_nobody_knows_is_a_finding(name, value):
    ledger = memory_ledger()
    submit(ledger, create("n", "Note"))
    with ledger.transaction() as transaction:
        row = transaction.tables.scan(TableQuery(schema.applied_effects, {"ordinal": 0}))[0]
        transaction.tables.put(schema.applied_effects, row | {name: value})
        [operation] = transaction.log_rows()
        effects_hash = sha256_hex(canonicalize(effects_of(transaction, operation)))
    with reseal(ledger, applied_effects_hash=effects_hash).view() as view:
        first = verify(view).findings[0]
    assert (first.table, first.key, first.rule) == ("applied_effects", "1/0", "unknown_name")


@pytest.mark.parametrize(
    ("changes", "rule"),
    [({"receipt_kind": "guess"}, "unknown_name"), ({"rules_version": NEXT}, "rules_unknown")],
)
def test_a_receipt_that_nobody_knows_is_a_finding(changes, rule):
    ledger = Ledger.create(MemoryStore(), FakeHost().host)
    assert code_of(submit(ledger, {"operation_id": "nonsense"})) == "envelope_schema_invalid"
    with ledger.transaction() as transaction:
        [row] = transaction.tables.scan(TableQuery(schema.receipts))
        content = canonicalize(orjson.loads(row["receipt_bytes"]) | changes)
        receipt_hash = sha256_hex(content)
        columns = {name: value for name, value in changes.items() if name in row}
        sealed = {"receipt_bytes": content, "receipt_hash": receipt_hash}
        transaction.tables.put(schema.receipts, row | columns | sealed)
        transaction.head_now.receipt_hash = receipt_hash
    with ledger.view() as view:
        assert view.tables.get(schema.chain_head, LEDGER_ID)["receipt_hash"] == receipt_hash
        assert [finding.rule for finding in verify(view).findings] == [rule]
