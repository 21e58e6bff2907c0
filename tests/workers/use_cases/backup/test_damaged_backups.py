"""A changed byte anywhere in a backup is found and named, and a restore of it leaves nothing."""

import json
import random
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workers.use_cases.backup.backed_up import Quiet
from workers.use_cases.backup.cipher import NoCipher
from workers.use_cases.backup.errors import (
    BackupDamaged,
    BackupError,
    BackupInvalid,
    BackupKeyInvalid,
    BackupSchemaDiffers,
    RestoreRefused,
    RestoreTargetInUse,
)
from workers.use_cases.backup.manifest import EFFECT_ROOTS, BackupManifest, is_path
from workers.use_cases.backup.place import BackupPlace
from workers.use_cases.backup.restore import backup_named, check_backup, restore_backup

HASH = "ab" * 32
RANDOM = random.Random(7)


def problems(backed_up, place=None):
    place = place or backed_up.place
    return check_backup(place, backup_named(place, None)[1], Quiet())


def turn(path, at):
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_changed_byte_anywhere_is_found_and_named(backed_up, key_file, encrypted):
    if encrypted:
        backed_up.place = backed_up.place_with(key_file)
    backed_up.backup()
    stored = backed_up.stored()
    assert len(stored) > 5
    for path in stored:
        content = path.read_bytes()
        turn(path, RANDOM.choice([0, len(content) - 1, RANDOM.randrange(len(content))]))
        if path.suffix == ".manifest":
            with pytest.raises(BackupDamaged, match=path.stem):
                problems(backed_up)
        else:
            assert [each for each in problems(backed_up) if path.stem in each] != []
            with pytest.raises(BackupDamaged, match=path.stem):
                backed_up.restore()
            assert left_in(backed_up.places / "restored") == set()
        path.write_bytes(content)
    assert problems(backed_up) == []


def left_in(folder):
    return {path.name for path in folder.iterdir()} - {"lock", "redis"}


def test_a_missing_piece_is_named(backed_up):
    backed_up.backup()
    piece = next(path for path in backed_up.stored() if path.suffix == ".piece")
    piece.unlink()
    assert [each for each in problems(backed_up) if piece.stem in each and "missing" in each]
    report = backed_up.backup()
    assert report.pieces_stored == 1, "the next backup stores it again"
    assert problems(backed_up) == []


def test_pieces_that_change_places_are_found_under_a_key(backed_up, key_file):
    backed_up.place = backed_up.place_with(key_file)
    backed_up.backup()
    first, second, *_ = [path for path in backed_up.stored() if path.suffix == ".piece"]
    one_content, other = first.read_bytes(), second.read_bytes()
    first.write_bytes(other)
    second.write_bytes(one_content)
    assert {path.stem for path in (first, second)} <= {
        name for each in problems(backed_up) for name in each.split()
    }


def test_another_key_and_no_key_open_nothing(backed_up, key_file):
    backed_up.place = backed_up.place_with(key_file)
    backed_up.backup()
    with pytest.raises(BackupKeyInvalid, match="ROTULUS_BACKUP_KEY"):
        problems(backed_up, backed_up.place_with(None))
    key_file.write_text("6f" * 32)
    with pytest.raises(BackupKeyInvalid):
        problems(backed_up, backed_up.place_with(key_file))


def test_who_has_a_key_believes_no_backup_that_is_not_encrypted(backed_up, key_file):
    backed_up.backup()
    with pytest.raises(BackupKeyInvalid, match="anybody"):
        problems(backed_up, backed_up.place_with(key_file))


@pytest.mark.parametrize("text", ["", "5e" * 31, "5e" * 33, "zz" * 32, "\udcff"])
def test_what_is_no_key_is_refused(backed_up, key_file, text):
    key_file.write_text(text, errors="surrogateescape")
    with pytest.raises(BackupKeyInvalid, match="openssl"):
        backed_up.place_with(key_file)


def test_nothing_is_restored_over_what_lies_there(backed_up):
    backed_up.backup()
    folder = backed_up.places / "restored"
    folder.mkdir(0o700)
    (folder / "mine").write_text("mine")
    with pytest.raises(RestoreTargetInUse, match="'mine'"):
        backed_up.restore()
    assert (folder / "mine").read_text() == "mine"
    assert left_in(folder) == {"mine"}


def changed(manifest: BackupManifest, **changes):
    return manifest.model_copy(update=changes)


def test_a_ledger_that_is_not_the_one_of_its_manifest_is_refused(backed_up):
    report = backed_up.backup()
    head = report.manifest.head.model_copy(update={"tree_root": HASH})
    lying = changed(report.manifest, head=head)
    settings = backed_up.settings(backed_up.places / "restored")
    with pytest.raises(RestoreRefused, match="its manifest states"):
        restore_backup(settings, backed_up.place, lying, Quiet())
    assert left_in(settings.data_dir) == set()


def test_a_record_that_does_not_verify_is_restored_on_request_alone(backed_up):
    backed_up.world.close()
    database = backed_up.world.database
    content = database.read_bytes()
    assert content.count(b"corpus:test") > 1
    database.write_bytes(content.replace(b"corpus:test", b"corpus:tEst", 1))
    backed_up.backup()
    with pytest.raises(RestoreRefused, match="findings"):
        backed_up.restore()
    assert left_in(backed_up.places / "restored") == set()
    assert "ledger.db" in left_in(backed_up.restore(kernel_dev_mode=True).data_dir)
    backed_up.world.opened()


def test_a_backup_of_another_version_names_the_program_that_restores_it(backed_up):
    report = backed_up.backup()
    settings = backed_up.settings(backed_up.places / "restored")
    older = changed(report.manifest, schema_version=1)
    with pytest.raises(BackupSchemaDiffers, match=report.manifest.program_version):
        restore_backup(settings, backed_up.place, older, Quiet())


@pytest.mark.parametrize(
    "path",
    [
        *("", "/", "/etc/passwd", "../ledger.db", "artifacts/../../x", "artifacts/./x"),
        *("artifacts", "artifacts/", "artifacts//x", "archive/../x", f"archive/{HASH[:-1]}"),
        *("published/../x", "published/tile/0/../../x", "redis/x", "lock", "known-head.json"),
        *(
            "demo-log.key",
            "share-links/x",
            "ledger.db/x",
            "ledger.db-wal",
            "events/\0",
            "events/" + "x" * 256,
        ),
    ],
)
def test_no_path_leads_out(path):
    assert not is_path(path)


@given(st.text(alphabet=st.sampled_from("./\\\0abx0~"), max_size=24), st.sampled_from(EFFECT_ROOTS))
def test_what_is_a_path_stays_below_its_root(tmp_path_factory, text, root):
    path = f"{root}/{text}"
    if not is_path(path):
        return
    base = tmp_path_factory.getbasetemp()
    assert (base / path).resolve().is_relative_to(base.resolve() / root)


def hostile(backed_up, content):
    """Put a manifest of these bytes where the newest backup lies, under its proper name."""
    moment = f"{(1 << 62):016x}"
    stored = b"rotulus-backup/1 -\n" + content
    name = moment + sha256(stored).hexdigest()[:48]
    folder = backed_up.places / "backups" / "manifests" / name[:2]
    folder.mkdir(0o700, exist_ok=True)
    (folder / f"{name}.manifest").write_bytes(stored)
    return name


@pytest.mark.parametrize(
    "change",
    [
        {"files": []},
        {"files": [{"path": "../x", "size_bytes": 0, "sha256": HASH, "pieces": []}]},
        {"files": [{"path": "ledger.db", "size_bytes": 1, "sha256": HASH, "pieces": []}]},
        {"files": [{"path": "ledger.db", "size_bytes": -1, "sha256": HASH, "pieces": []}]},
        {"files": [{"path": "ledger.db", "size_bytes": 0, "sha256": HASH, "pieces": ["../x"]}]},
        {"format": "rotulus-backup/2"},
        {"began_at_us": "1"},
        {"began_at_us": 1},
        {"further": 1},
    ],
)
def test_a_manifest_that_states_what_no_backup_has_is_refused(backed_up, change):
    stated = json.loads(backed_up.backup().manifest.to_bytes())
    hostile(backed_up, json.dumps(stated | {"began_at_us": 1 << 62} | change).encode())
    with pytest.raises(BackupInvalid):
        problems(backed_up)


def test_a_file_that_is_also_a_folder_is_refused(backed_up):
    stated = json.loads(backed_up.backup().manifest.to_bytes())
    further = [
        {"path": path, "size_bytes": 0, "sha256": HASH, "pieces": []}
        for path in ("events/x", "events/x/y")
    ]
    stated |= {"began_at_us": 1 << 62, "files": stated["files"] + further}
    hostile(backed_up, json.dumps(stated).encode())
    with pytest.raises(BackupInvalid, match="folder"):
        problems(backed_up)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@settings(max_examples=settings().max_examples // 2)
@given(st.binary(max_size=64) | JSON.map(lambda value: json.dumps(value).encode()))
def test_whatever_lies_there_is_refused_by_a_code(content):
    with pytest.raises(BackupInvalid):
        BackupManifest.of_bytes("name", content)


class OneManifest:
    """Files of which there is one, whatever is asked for."""

    def __init__(self, stored):
        self.stored = stored

    def get(self, name):
        del name
        return self.stored


@given(
    st.binary(max_size=96) | st.binary(max_size=64).map(lambda rest: b"rotulus-backup/1 -\n" + rest)
)
def test_whatever_is_stored_as_a_manifest_is_refused_by_a_code(stored):
    place = BackupPlace("/nowhere", NoCipher())
    place._manifests = OneManifest(stored)  # noqa: SLF001 - in the place of a bucket that lies
    name = f"{1:016x}" + sha256(stored).hexdigest()[:48]
    with pytest.raises(BackupError):
        place.manifest(name)
