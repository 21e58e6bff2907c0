"""A ledger in a database is backed up with the right to read alone, and goes back into one."""

import threading
from contextlib import closing
from urllib.parse import urlsplit, urlunsplit

import pytest
from pydantic import SecretStr

from kernel.landscape.recorder import Recorder
from kernel.ledger.ledger import Ledger
from kernel.ledger.postgres.store import PostgresStore
from kernel.ledger.schema import metadata
from kernel.ledger.store.tables import TableQuery
from tests.kernel.build import FakeHost, create, submit
from tests.kernel.landscape.runs import whole_run
from workers.environment.ledger_access import read_record
from workers.environment.ledger_verification import verify_file
from workers.environment.settings import Settings
from workers.use_cases.backup.backup import head_in, make_backup
from workers.use_cases.backup.cipher import NoCipher
from workers.use_cases.backup.errors import RestoreTargetInUse
from workers.use_cases.backup.place import BackupPlace
from workers.use_cases.backup.restore import restore_backup

pytestmark = pytest.mark.slow


def quiet(*stated):
    del stated


@pytest.fixture
def filled(postgres_url):
    """A database with operations, thoughts and the records of a run."""
    with closing(Ledger.create(PostgresStore(postgres_url), FakeHost().host)) as ledger:
        for number in range(5):
            assert submit(ledger, create(f"n-{number}", "Note")).ec_sequence_number
        recorder = Recorder(ledger)
        whole_run(recorder)
        recorder.complete_run("run-1")
        yield postgres_url, ledger


def rows_of(url):
    with closing(PostgresStore(url)) as store, store.view() as tables:
        return {
            table.name: sorted(map(repr, tables.scan(TableQuery(table))))
            for table in metadata.sorted_tables
        }


def test_every_row_goes_into_a_backup_and_back_into_an_empty_database(
    filled, postgres_empty_url, tmp_path
):
    url, _ = filled
    place = BackupPlace(str(tmp_path / "backups"), NoCipher())
    source = Settings(data_dir=tmp_path / "data", database_url=SecretStr(url))
    report = make_backup(source, place, quiet)
    assert report.manifest.database == "postgresql"
    target = source.with_changes(
        data_dir=tmp_path / "restored", database_url=SecretStr(postgres_empty_url)
    )
    assert restore_backup(target, place, report.manifest, quiet) == []
    assert rows_of(postgres_empty_url) == rows_of(url)
    assert sum(map(len, rows_of(url).values())) > 50
    assert verify_file(SecretStr(postgres_empty_url), quiet).ok
    assert read_record(SecretStr(postgres_empty_url), head_in) == report.manifest.head
    assert "ledger" not in {path.stem for path in (tmp_path / "restored").iterdir()}
    again = target.with_changes(data_dir=tmp_path / "again")
    with pytest.raises(RestoreTargetInUse, match="has a ledger in it"):
        restore_backup(again, place, report.manifest, quiet)
    with closing(Ledger(PostgresStore(postgres_empty_url), FakeHost().host)) as ledger:
        assert submit(ledger, create("after", "Note")).ec_sequence_number


def test_a_backup_of_a_database_goes_into_a_file_as_well(filled, tmp_path):
    url, _ = filled
    place = BackupPlace(str(tmp_path / "backups"), NoCipher())
    source = Settings(data_dir=tmp_path / "data", database_url=SecretStr(url))
    report = make_backup(source, place, quiet)
    restore_backup(Settings(data_dir=tmp_path / "file"), place, report.manifest, quiet)
    assert read_record(tmp_path / "file" / "ledger.db", head_in) == report.manifest.head


def test_a_backup_needs_the_right_to_read_alone_and_nobody_waits_for_it(postgres, filled, tmp_path):
    url, ledger = filled
    role = "backup_reader"
    postgres.run(f"DROP ROLE IF EXISTS {role}")
    postgres.run(f"CREATE ROLE {role} LOGIN")
    try:
        with closing(PostgresStore(url)) as store:
            store._expect_writer().execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")  # noqa: SLF001 - as its owner
        place = BackupPlace(str(tmp_path / "backups"), NoCipher())
        reader = with_user(url, role)
        source = Settings(data_dir=tmp_path / "data", database_url=SecretStr(reader))
        stop, answered = threading.Event(), [0]

        def write():
            while not stop.is_set():
                submit(ledger, create(f"load-{answered[0]}", "Note"))
                answered[0] += 1

        writer = threading.Thread(target=write)
        writer.start()
        before = answered[0]
        report = make_backup(source, place, quiet)
        stop.set()
        writer.join()
        assert report.manifest.head.ec_sequence_number >= 5 + before
        restore_backup(Settings(data_dir=tmp_path / "file"), place, report.manifest, quiet)
    finally:
        with closing(PostgresStore(url)) as store:
            store._expect_writer().execute(f"DROP OWNED BY {role}")  # noqa: SLF001 - as its owner
        postgres.run(f"DROP ROLE {role}")


def with_user(url, role):
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{role}@{host}"))
