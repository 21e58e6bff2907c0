"""A backup has what was answered before it, and is there as a whole or not at all."""

import threading
from contextlib import closing

import pytest

from kernel.ledger.sqlite.store import SqliteStore
from tests.kernel.build import create, ledger_on, submit
from tests.workers.use_cases.backup.backed_up import EFFECTS, BackedUp, Quiet, archived
from workers.environment.ledger_access import open_record
from workers.use_cases.backup.backup import make_backup
from workers.use_cases.backup.errors import BackupBusy, BackupMissing
from workers.use_cases.backup.restore import backup_named, check_backup


def head_of(folder):
    with open_record(folder / "ledger.db") as view:
        return view.head()


def test_what_was_answered_is_there_after_a_restore(backed_up):
    report = backed_up.backup()
    before = head_of(backed_up.world.folder)
    restored = backed_up.restore().data_dir
    assert head_of(restored) == before
    assert report.manifest.head.ec_sequence_number == before.ec_sequence_number
    assert archived(restored) == archived(backed_up.world.folder) != {}
    assert {name: (restored / name).read_bytes() for name in EFFECTS} == EFFECTS


def test_the_restored_ledger_goes_on(backed_up):
    backed_up.backup()
    restored = backed_up.restore().data_dir
    ledger, _ = ledger_on(SqliteStore(restored / "ledger.db"))
    with closing(ledger):
        assert submit(ledger, create("after", "Note")).ec_sequence_number
    assert (
        head_of(restored).ec_sequence_number
        == 1 + head_of(backed_up.world.folder).ec_sequence_number
    )


def test_neither_keys_nor_tokens_are_backed_up(backed_up):
    report = backed_up.backup()
    secrets = [line.encode() for line in backed_up.world.key.read_text().split()]
    secrets.append(b"a secret")
    stored = b"".join(path.read_bytes() for path in backed_up.stored())
    assert [secret for secret in secrets if secret in stored] == []
    [named] = report.manifest.keys
    assert named.setting == "ROTULUS_CHECKPOINT_KEY"
    assert len(named.vkeys) == 2


def test_a_backup_under_load_has_every_row_that_was_answered_before_it(backed_up):
    stop, answered = threading.Event(), [0]

    def write():
        while not stop.is_set():
            backed_up.world.grow(1, f"load-{answered[0]}")
            answered[0] += 1

    begin = head_of(backed_up.world.folder).ec_sequence_number
    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(3):
            before = answered[0]
            report = backed_up.backup()
            assert report.manifest.head.ec_sequence_number >= begin + before
    finally:
        stop.set()
        writer.join()
    assert answered[0] > 0
    restored = backed_up.restore().data_dir
    assert head_of(restored).row_hash == report.manifest.head.row_hash


def test_only_what_is_new_is_stored(backed_up):
    first = backed_up.backup()
    again = backed_up.backup()
    assert first.pieces_stored == first.pieces_total
    assert (again.pieces_stored, again.bytes_stored) == (0, 0)
    backed_up.world.grow(1, "new")
    grown = backed_up.backup()
    assert 0 < grown.pieces_stored < grown.pieces_total
    restored = backed_up.restore(first.name).data_dir
    assert head_of(restored).ec_sequence_number == first.manifest.head.ec_sequence_number


class CutOff(BaseException):
    """Ends a backup where a signal would."""


@pytest.mark.parametrize("pieces", [0, 2])
def test_a_backup_that_is_cut_off_leaves_the_earlier_one(backed_up, monkeypatch, pieces):
    earlier = backed_up.backup()
    backed_up.world.grow(40, "new")
    put, left = backed_up.place.put_piece, iter(range(pieces))

    def cut_off(name, content):
        if next(left, None) is None:
            raise CutOff
        return put(name, content)

    with monkeypatch.context() as patch:
        patch.setattr(backed_up.place, "put_piece", cut_off)
        with pytest.raises(CutOff):
            backed_up.backup()
    assert backed_up.place.manifest_names() == [earlier.name]
    assert not [path for path in backed_up.world.folder.iterdir() if "copy" in path.name]
    backed_up.restore()
    assert backed_up.backup().manifest.head.ec_sequence_number > 0
    assert len(backed_up.place.manifest_names()) == 2


def test_older_backups_go_with_what_only_they_had(backed_up):
    for number in range(3):
        backed_up.backup()
        backed_up.world.grow(5, f"new-{number}")
    report = backed_up.backup(keep=2)
    assert report.backups_removed == 2
    names = backed_up.place.manifest_names()
    assert len(names) == 2
    used = {piece for name in names for piece in backed_up.place.manifest(name).piece_hashes()}
    assert backed_up.place.piece_names() == used
    for name in names:
        assert check_backup(backed_up.place, backed_up.place.manifest(name), Quiet()) == []


def test_one_backup_is_made_at_a_time(backed_up, monkeypatch):
    put = backed_up.place.put_piece

    def put_while_another_begins(name, content):
        with pytest.raises(BackupBusy):
            make_backup(backed_up.settings(), backed_up.place, Quiet())
        return put(name, content)

    monkeypatch.setattr(backed_up.place, "put_piece", put_while_another_begins)
    assert backed_up.backup().pieces_stored > 0


def test_a_backup_before_this_one_that_is_damaged_holds_nothing_up(backed_up):
    backed_up.backup()
    [manifest] = [path for path in backed_up.stored() if path.suffix == ".manifest"]
    manifest.write_bytes(manifest.read_bytes()[:-1])
    report = backed_up.backup()
    assert report.problem_of_last.startswith("backup_damaged")
    assert report.pieces_stored == report.pieces_total, "which pieces are whole is not known"
    backed_up.restore(report.name)


def test_where_there_is_no_backup_none_is_named(backed_up):
    with pytest.raises(BackupMissing):
        backup_named(backed_up.place, None)
    backed_up.backup()
    for name in ("0" * 64, "../../etc/passwd", ""):
        with pytest.raises(BackupMissing):
            backup_named(backed_up.place, name)


def test_what_is_encrypted_tells_nothing(backed_up, key_file):
    plain = BackedUp(backed_up.world, backed_up.places / "plain")
    names = {path.name for path in (plain.backup(), plain.stored())[1]}
    secret = BackedUp(backed_up.world, backed_up.places / "secret", key_file)
    report = secret.backup()
    stored = secret.stored()
    assert not names & {path.name for path in stored}
    assert not [path for path in stored if b"SQLite" in path.read_bytes()[:16]]
    assert not [path for path in stored if b"row_hash" in path.read_bytes()]
    assert secret.backup().pieces_stored == 0
    assert head_of(secret.restore(report.name).data_dir) == head_of(backed_up.world.folder)
