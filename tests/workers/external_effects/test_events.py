"""An event is appended whole, and once for each request."""

import fcntl
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from workers.external_effects import event_file as events_module
from workers.external_effects.errors import ExternalEffectError
from workers.external_effects.event_file import LINE_MAX_BYTES, EventFile
from workers.external_effects.write_once_folder import OutsideFolder

PARTS = ("events", "e.jsonl")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path


def events_of(root: Path, *waiting: str) -> EventFile:
    events = EventFile(OutsideFolder(root), PARTS)
    events.expect(waiting)
    return events


def event(request_id: str) -> bytes:
    return b'{"request_id":"%s"}' % request_id.encode()


def owner() -> None:
    """What an owner's check does."""


def lines(root: Path) -> list[bytes]:
    return root.joinpath(*PARTS).read_bytes().splitlines(keepends=True)


def test_an_event_is_a_line_and_its_hash_is_the_lines(root):
    written = events_of(root).append("r1", event("r1"), owner)
    assert lines(root) == [event("r1") + b"\n"]
    assert written.path == "events/e.jsonl"
    assert written.size_bytes == len(event("r1")) + 1


def test_one_request_is_one_line_in_one_process(root):
    events = events_of(root)
    for request_id in ("r1", "r2", "r1"):
        events.append(request_id, event(request_id), owner)
    assert lines(root) == [event("r1") + b"\n", event("r2") + b"\n"]


def test_one_request_is_one_line_over_a_restart(root):
    for request_id in ("r1", "r2"):
        events_of(root).append(request_id, event(request_id), owner)
    events = events_of(root, "r1", "r3")
    events.append("r3", event("r3"), owner)
    events.append("r1", event("r1"), owner)
    assert [line[:-1] for line in lines(root)] == [event(run_id) for run_id in ("r1", "r2", "r3")]


@pytest.mark.parametrize("waiting", [(), ("r2",)])
def test_a_line_without_its_end_is_written_again(root, waiting):
    events_of(root).append("r1", event("r1"), owner)
    with root.joinpath(*PARTS).open("ab") as file:
        file.write(event("r2")[:7])
    events_of(root, *waiting).append("r2", event("r2"), owner)
    assert lines(root) == [event("r1") + b"\n", event("r2") + b"\n"]


def test_a_full_disk_leaves_the_lines_that_were_there(root, monkeypatch):
    real = os.pwrite

    def half(fd: int, line: bytes, at: int) -> int:
        return real(fd, line[: len(line) // 2], at)

    events = events_of(root)
    events.append("r1", event("r1"), owner)
    with monkeypatch.context() as patched:
        patched.setattr(events_module.os, "pwrite", half)
        with pytest.raises(ExternalEffectError) as caught:
            events.append("r2", event("r2"), owner)
    assert (caught.value.code, caught.value.transient) == ("external_storage_full", True)
    assert lines(root) == [event("r1") + b"\n"]
    events.append("r2", event("r2"), owner)
    assert len(lines(root)) == 2


def test_a_link_in_the_place_of_the_file_is_not_followed(root, tmp_path):
    (root / "events").mkdir()
    root.joinpath(*PARTS).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ExternalEffectError):
        events_of(root).append("r1", event("r1"), owner)
    assert not (tmp_path / "elsewhere").exists()


def test_a_file_of_something_else_is_left_alone(root):
    (root / "events").mkdir()
    root.joinpath(*PARTS).write_bytes(b"x" * (2 * LINE_MAX_BYTES))
    with pytest.raises(ExternalEffectError) as caught:
        events_of(root).append("r1", event("r1"), owner)
    assert caught.value.code == "external_path_occupied"


def test_a_line_has_a_limit(root):
    with pytest.raises(ExternalEffectError) as caught:
        events_of(root).append("r1", b"x" * LINE_MAX_BYTES, owner)
    assert caught.value.code == "external_event_too_large"


def test_two_owners_write_one_event_once_and_cut_nothing_off(root):
    """An owner that lost its epoch unknowingly, and its successor, append in turns."""
    earlier, later = events_of(root), events_of(root, "r1")
    earlier.append("r0", event("r0"), owner)
    later.append("r2", event("r2"), owner)
    earlier.append("r1", event("r1"), owner)
    later.append("r1", event("r1"), owner)
    earlier.append("r2", event("r2"), owner)
    assert [line[:-1] for line in lines(root)] == [event(name) for name in ("r0", "r2", "r1")]


def test_owners_at_the_same_time_write_each_event_once(root):
    names = [f"r{number}" for number in range(60)]

    def append_all(order: list[str]) -> None:
        events = EventFile(OutsideFolder(root), PARTS, lock_wait_s=600.0)
        events.expect(names)
        for name in order:
            events.append(name, event(name), owner)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(append_all, [names, names[::-1], names[30:] + names[:30]]))
    assert sorted(lines(root)) == sorted(event(name) + b"\n" for name in names)


def test_what_is_no_owner_any_more_appends_nothing(root):
    def lost() -> None:
        raise ExternalEffectError("stale_epoch", "another gateway performs")

    with pytest.raises(ExternalEffectError):
        events_of(root).append("r1", event("r1"), lost)
    assert lines(root) == []


def test_a_lock_that_is_kept_is_waited_for_no_longer_than_its_limit(root):
    events_of(root).append("r1", event("r1"), owner)
    events = EventFile(OutsideFolder(root), PARTS, lock_wait_s=0.05)
    with root.joinpath(*PARTS).open("rb") as kept:
        fcntl.flock(kept, fcntl.LOCK_EX)
        with pytest.raises(ExternalEffectError) as caught:
            events.append("r2", event("r2"), owner)
    assert (caught.value.code, caught.value.transient) == ("external_events_locked", True)
    events.append("r2", event("r2"), owner)
    assert len(lines(root)) == 2


def test_a_file_that_its_consumer_took_away_is_begun_again(root):
    events = events_of(root)
    events.append("r1", event("r1"), owner)
    root.joinpath(*PARTS).rename(root / "consumed")
    events.append("r2", event("r2"), owner)
    assert lines(root) == [event("r2") + b"\n"]
