import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from workers.environment.data_folder import (
    ROOM_BYTES,
    DataFolder,
    DataFolderBusyError,
    DataFolderNotLockedError,
    DataFolderUnsafeError,
    DataFolderUnusableError,
)

ROOT = Path(__file__).resolve().parents[3]
HOLDER = """
import sys, time
from workers.environment.data_folder import DataFolder
with DataFolder(sys.argv[1]).lock() as folder:
    folder.write_runtime({"port": 1})
    print("locked", flush=True)
    time.sleep(60)
"""


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def holder(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "data")],
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"locked\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_nothing_is_created_before_the_folder_is_locked(tmp_path):
    folder = DataFolder(tmp_path / "data")
    assert not folder.in_use()
    assert folder.read_runtime() is None
    assert not folder.path.exists()


def test_the_folder_and_its_files_are_for_their_owner_alone(tmp_path):
    before = os.umask(0)
    try:
        with DataFolder(tmp_path / "a" / "data").lock() as folder:
            folder.write_runtime({"port": 1})
            assert mode(folder.path) == 0o700
            assert mode(folder.redis_dir) == 0o700
            assert mode(folder.lock_path) == 0o600
            assert mode(folder.runtime_path) == 0o600
    finally:
        os.umask(before)


def test_paths_do_not_follow_a_change_of_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = DataFolder("data")
    monkeypatch.chdir("/")
    assert folder.ledger_path == tmp_path / "data" / "ledger.db"


def test_a_second_holder_is_told_the_pid_of_the_first(tmp_path, holder):
    folder = DataFolder(tmp_path / "data")
    with (
        pytest.raises(DataFolderBusyError, match=r"data_folder_busy: .*") as caught,
        folder.lock(),
    ):
        pass
    assert caught.value.pid == holder.pid
    assert str(holder.pid) in str(caught.value)
    assert caught.value.code == "data_folder_busy"


def test_the_same_process_cannot_hold_it_twice(tmp_path):
    folder = DataFolder(tmp_path)
    with folder.lock():
        with pytest.raises(DataFolderBusyError) as caught, DataFolder(tmp_path).lock():
            pass
        assert caught.value.pid == os.getpid()
        assert folder.in_use()
    with folder.lock():
        assert folder.in_use()
    assert not folder.in_use()


def test_a_refused_holder_leaves_the_facts_of_the_first_alone(tmp_path, holder):
    folder = DataFolder(tmp_path / "data")
    with pytest.raises(DataFolderBusyError), folder.lock():
        pass
    assert folder.read_runtime() == {"port": 1}


def test_a_killed_holder_gives_the_folder_up_and_its_facts_are_void(tmp_path, holder):
    folder = DataFolder(tmp_path / "data")
    assert folder.read_runtime() == {"port": 1}
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert folder.runtime_path.exists()
    assert folder.read_runtime() is None
    with folder.lock():
        assert not folder.runtime_path.exists()


def test_facts_are_written_as_a_whole_and_removed_at_the_end(tmp_path):
    with DataFolder(tmp_path).lock() as folder:
        assert folder.read_runtime() is None
        folder.runtime_path.with_suffix(".json.new").write_text("left by a killed holder")
        folder.write_runtime({"port": 1, "pids": {"gateway": 2}})
        folder.write_runtime({"port": 2})
        assert json.loads(folder.runtime_path.read_text()) == {"port": 2}
        assert sorted(item.name for item in tmp_path.iterdir()) == ["lock", "redis", "runtime.json"]
    assert not folder.runtime_path.exists()
    assert folder.lock_path.exists()


def write_and_fail(folder: DataFolder) -> None:
    with folder.lock():
        folder.write_runtime({})
        raise KeyError


def test_facts_are_removed_and_the_lock_is_free_after_an_error(tmp_path):
    folder = DataFolder(tmp_path)
    with pytest.raises(KeyError):
        write_and_fail(folder)
    assert not folder.runtime_path.exists()
    assert not folder.in_use()


def test_facts_are_not_written_without_the_lock(tmp_path):
    with pytest.raises(DataFolderNotLockedError, match="data_folder_not_locked"):
        DataFolder(tmp_path).write_runtime({})


PARENT = """
import os, subprocess, sys, time
from workers.environment.data_folder import DataFolder
with DataFolder(sys.argv[1]).lock():
    started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    reading, writing = os.pipe()
    forked = os.fork()
    if forked == 0:
        os.write(writing, b"x")
        time.sleep(60)
        os._exit(0)
    os.read(reading, 1)
    print(started.pid, forked, flush=True)
    time.sleep(60)
"""


def test_children_that_outlive_a_killed_holder_do_not_keep_the_lock(tmp_path):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    children = [int(pid) for pid in parent.stdout.readline().split()]
    try:
        assert DataFolder(tmp_path).in_use()
        parent.kill()
        parent.wait()
        for pid in children:
            os.kill(pid, 0)
        assert not DataFolder(tmp_path).in_use()
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
        parent.kill()
        parent.wait()
        parent.stdout.close()


ASKER = """
import sys
from workers.environment.data_folder import DataFolder
folder = DataFolder(sys.argv[1])
print("asking", flush=True)
while True:
    folder.in_use()
"""


def test_a_reader_that_asks_does_not_refuse_the_next_holder(tmp_path):
    asking = subprocess.Popen(
        [sys.executable, "-c", ASKER, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE
    )
    try:
        with DataFolder(tmp_path).lock():
            pass
        assert asking.stdout is not None
        asking.stdout.readline()
        end_s = time.monotonic() + 0.5
        while time.monotonic() < end_s:
            with DataFolder(tmp_path).lock():
                pass
    finally:
        asking.kill()
        asking.wait()
        asking.stdout.close()


def test_a_place_that_cannot_be_a_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataFolderUnusableError, match="data_folder_unusable"):  # noqa: SIM117
        with DataFolder(tmp_path / "file").lock():
            pass


# Others on the machine


def refused(path: Path) -> str:
    with pytest.raises(DataFolderUnsafeError) as caught, DataFolder(path).lock():
        pass
    return str(caught.value)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir(mode=0o700)
    return tmp_path / "data"


@pytest.mark.parametrize("let_in", [0o755, 0o750, 0o701, 0o720, 0o1777])
def test_a_folder_that_others_may_open_is_refused_and_left_alone(data, let_in):
    data.chmod(let_in)
    assert f"chmod 700 {data}" in refused(data)
    assert list(data.iterdir()) == []
    assert mode(data) == let_in


def test_a_link_of_ours_may_lead_to_a_folder_of_ours(tmp_path, data):
    (tmp_path / "link").symlink_to(data)
    with DataFolder(tmp_path / "link").lock():
        assert (data / "lock").exists()


def test_somebody_elses_folder_link_and_file_are_refused(tmp_path, data, monkeypatch):
    (tmp_path / "link").symlink_to(data)
    (data / "ledger.db").touch(0o600)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert "another user" in refused(data)
    assert "a link that another user made" in refused(tmp_path / "link") or os.getuid() == 0


@pytest.mark.parametrize("name", ["ledger.db", "ledger.db-wal", "runtime.json"])
def test_a_link_in_the_place_of_a_file_is_refused_and_nothing_is_written_through_it(
    tmp_path, data, name
):
    (tmp_path / "elsewhere").write_text("kept")
    (data / name).symlink_to(tmp_path / "elsewhere")
    assert "no plain file" in refused(data)
    assert (tmp_path / "elsewhere").read_text() == "kept"


def test_a_ledger_with_a_second_name_is_refused(tmp_path, data):
    (data / "ledger.db").touch(0o600)
    (tmp_path / "second").hardlink_to(data / "ledger.db")
    assert "a second name" in refused(data)


def test_files_that_others_could_read_are_made_private(data):
    for name in ("ledger.db", "ledger.db-wal", "lock"):
        (data / name).touch()
        (data / name).chmod(0o644)
    with DataFolder(data).lock():
        assert {mode(data / name) for name in ("ledger.db", "ledger.db-wal", "lock")} == {0o600}


@pytest.mark.parametrize("name", ["lock", "redis"])
def test_a_link_in_the_place_of_the_lock_or_of_redis_is_refused(tmp_path, data, name):
    (data / name).symlink_to(tmp_path / "nowhere")
    with pytest.raises((DataFolderUnsafeError, DataFolderUnusableError)):  # noqa: SIM117
        with DataFolder(data).lock():
            pass
    assert not (tmp_path / "nowhere").exists()


def test_a_tree_of_somebody_else_leads_nowhere(tmp_path, holder, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(DataFolderUnsafeError):
        DataFolder(tmp_path / "data").read_runtime()


def test_facts_that_cannot_be_read_are_a_clear_error(tmp_path):
    with DataFolder(tmp_path).lock() as folder:
        folder.runtime_path.write_text("{")
        with pytest.raises(DataFolderUnusableError):
            folder.read_runtime()


ROOMY = """
import resource, sys
from workers.environment.data_folder import DataFolder
if len(sys.argv) > 2:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
print(DataFolder(sys.argv[1]).has_room())
"""


@pytest.mark.parametrize(
    ("limit", "has_room"),
    [([], "True"), ([str(ROOM_BYTES)], "True"), ([str(ROOM_BYTES - 1)], "False"), (["0"], "False")],
)
def test_room_is_what_can_be_written_and_nothing_of_it_stays(tmp_path, limit, has_room):
    command = [sys.executable, "-c", ROOMY, str(tmp_path / "data"), *limit]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == has_room
    assert list((tmp_path / "data").iterdir()) == []


def test_a_place_that_cannot_be_a_folder_is_no_want_of_room(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DataFolderUnusableError):
        DataFolder(tmp_path / "file").has_room()
