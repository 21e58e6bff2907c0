"""A run as lines that verify by themselves, and taken in again (seed 003, compliance export)."""

import csv

import orjson
import pytest

from kernel.landscape.digest import digest_of
from kernel.landscape.errors import LandscapeRefused
from kernel.landscape.export import ImportRefused, export_csv, export_run, import_run
from kernel.landscape.record_rules import TABLES
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.tables import TableQuery
from tests.kernel.build import FakeHost
from tests.kernel.landscape.runs import whole_run

KEY = b"a key of the tests"


@pytest.fixture
def lines(ledger, recorder):
    whole_run(recorder)
    recorder.complete_run("run-1")
    return ledger.read(lambda view: list(export_run(view, "run-1", KEY)))


@pytest.fixture
def other(tmp_path):
    other = Ledger.create(SqliteStore(tmp_path / "other.db"), FakeHost().host)
    yield other
    other.close()


@pytest.mark.spec("seed 003, exporter")
def test_an_export_has_every_record_and_imports_to_the_same_digest(ledger, lines, other):
    digest = ledger.read(lambda view: digest_of(view, "run-1"))
    kinds = [orjson.loads(line)["record_type"] for line in lines]
    assert {*kinds} == {*TABLES, "manifest"}
    manifest = import_run(other, lines, KEY)
    assert manifest["run_digest"] == digest.run_digest
    assert manifest["record_count"] == len(lines) - 1
    assert other.read(lambda view: digest_of(view, "run-1")) == digest
    with pytest.raises(LandscapeRefused):
        import_run(other, lines, KEY)
    assert ledger.read(lambda view: list(export_run(view, "run-1", KEY))) == lines


def changed(lines, at, **fields):
    document = orjson.loads(lines[at])
    return [*lines[:at], orjson.dumps({**document, **fields}), *lines[at + 1 :]]


@pytest.mark.parametrize("key", [KEY, None])
@pytest.mark.parametrize(
    "spoiled",
    [
        lambda lines: changed(lines, 1, plugin_name="another"),
        lambda lines: changed(lines, 0, config_hash="x"),
        lambda lines: changed(lines, len(lines) - 1, record_count=1),
        lambda lines: lines[:-1],
        lambda lines: lines[1:],
        lambda lines: lines[:5] + lines[6:],
        lambda lines: [lines[0], lines[2], lines[1], *lines[3:]],
        lambda lines: [b"[]", *lines],
        lambda lines: [b"{", *lines],
        lambda _: [],
    ],
)
def test_an_export_that_was_changed_is_refused_and_nothing_is_taken(lines, other, spoiled, key):
    with pytest.raises(ImportRefused) as refused:
        import_run(other, spoiled(lines), key)
    assert refused.value.code == "landscape_import_invalid"
    assert other.read(lambda view: view.tables.count(TableQuery(TABLES["runs"]))) == 0


def test_an_export_whose_records_name_what_is_not_there_is_refused(other, lines):
    row_id = next(
        orjson.loads(line)["row_id"]
        for line in lines
        if orjson.loads(line)["record_type"] == "tokens"
    )
    forged = [orjson.loads(line) for line in lines]
    for document in forged:
        document.pop("signature")
        if document["record_type"] == "tokens" and document["row_id"] == row_id:
            document["row_id"] = "nowhere"
    with pytest.raises(ImportRefused, match="row_id names nowhere"):
        import_run(other, map(orjson.dumps, forged))
    assert other.read(lambda view: view.tables.count(TableQuery(TABLES["runs"]))) == 0


def test_another_key_takes_nothing(lines, other):
    with pytest.raises(ImportRefused, match="line 1: the signature"):
        import_run(other, lines, b"another key")


def test_csv_has_a_file_for_each_table_with_its_columns(ledger, lines, tmp_path):
    paths = ledger.read(lambda view: export_csv(view, "run-1", tmp_path))
    assert {path.stem for path in paths} == {*TABLES}
    with (tmp_path / "rows.csv").open() as file:
        [row] = csv.DictReader(file)
    assert row["row_index"] == "0"
