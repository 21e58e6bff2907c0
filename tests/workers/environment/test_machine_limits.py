"""A machine that leaves no room is refused by name at the start; one that is tight is told of."""

import resource
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.process_environment import process_environment
from workers.environment import machine_limits
from workers.environment.diagnosis import diagnose
from workers.environment.machine_limits import MachineUnfitError, current_limits, expect_fit
from workers.environment.settings import Settings

GIB = 1 << 30


@pytest.fixture(autouse=True)
def ample(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {resource.RLIMIT_NOFILE: 65_536, resource.RLIMIT_AS: resource.RLIM_INFINITY}
    monkeypatch.setattr(machine_limits.resource, "getrlimit", lambda of: (64, limits[of]))
    monkeypatch.setattr(machine_limits, "CGROUPS", ())
    free = type("Usage", (), {"free": 9 * GIB})
    monkeypatch.setattr(machine_limits.shutil, "disk_usage", lambda _: free)


def lower(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, value: int | str) -> None:
    """Lower one limit of the machine."""
    if name == "open files":
        both = {resource.RLIMIT_NOFILE: value, resource.RLIMIT_AS: resource.RLIM_INFINITY}
        monkeypatch.setattr(machine_limits.resource, "getrlimit", lambda of: (64, both[of]))
    elif name == "address space":
        both = {resource.RLIMIT_NOFILE: 65_536, resource.RLIMIT_AS: value}
        monkeypatch.setattr(machine_limits.resource, "getrlimit", lambda of: (64, both[of]))
    elif name == "memory":
        (tmp_path / "memory.max").write_text(f"{value}\n")
        paths = (tmp_path / "none", tmp_path / "memory.max")
        monkeypatch.setattr(machine_limits, "CGROUPS", paths)
    elif name == "locale":
        monkeypatch.setattr(machine_limits.sys, "getfilesystemencoding", lambda: value)
    elif name == "clock":
        monkeypatch.setattr(machine_limits.time, "time", lambda: float(value))
    else:
        free = type("Usage", (), {"free": value})
        monkeypatch.setattr(machine_limits.shutil, "disk_usage", lambda _: free)


UNFIT = [
    *(("open files", files) for files in (256, 260, 300, 319)),
    ("memory", 128 << 20),
    ("address space", GIB - 1),
    ("locale", "iso8859-1"),
    ("clock", 0),
    ("clock", 5_000_000_000),
]
TIGHT = [("open files", 320), ("memory", 256 << 20), ("address space", 2 * GIB), ("disk", 5 << 20)]


@pytest.mark.parametrize(("name", "value"), UNFIT)
def test_what_cannot_work_is_refused_by_name(monkeypatch, tmp_path, name, value):
    lower(monkeypatch, tmp_path, name, value)
    with pytest.raises(MachineUnfitError, match=name) as refused:
        expect_fit(tmp_path)
    assert refused.value.code == "machine_unfit"
    [seen] = [
        entry for entry in diagnose(Settings(data_dir=tmp_path)) if entry.subject == "machine"
    ]
    assert (seen.state, name in seen.what, bool(seen.todo)) == ("problem", True, True)


@pytest.mark.parametrize(("name", "value"), TIGHT)
def test_what_is_tight_is_said(monkeypatch, tmp_path, name, value):
    lower(monkeypatch, tmp_path, name, value)
    [limit] = expect_fit(tmp_path)
    assert limit.fitness == "tight"
    assert name in limit.what
    assert limit.todo


def test_a_machine_with_room_is_not_remarked_on(monkeypatch, tmp_path):
    lower(monkeypatch, tmp_path, "memory", "max")
    assert expect_fit(tmp_path / "not" / "there") == []
    assert {limit.fitness for limit in current_limits(tmp_path)} == {"ok"}


@pytest.mark.parametrize("command", ["up", "gateway", "worker", "tee"])
def test_a_process_with_few_files_says_so_and_opens_nothing(tmp_path, command):
    data = tmp_path / "data"
    lowered = partial(resource.setrlimit, resource.RLIMIT_NOFILE, (300, 300))
    environment = process_environment() | {"ROTULUS_REDIS_URL": "redis://127.0.0.1:1/0"}
    ended = subprocess.run(
        [sys.executable, "-m", "workers", command, "--data-dir", str(data)],
        preexec_fn=lowered,
        env=environment,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert ended.returncode == 1
    assert "machine_unfit: open files: 300 are allowed, 320 needed: raise `ulimit" in ended.stderr
    assert not (data / "ledger.db").exists()
