"""The image is built without a network, and runs the demo as its PID 1 on a read-only root."""

import json
import os
import shutil
import subprocess
import sys
import time

import pytest

from tests.deploy.container import PROGRAMS, ROOT, USER, VOLUME, Workshop, running

MISSING = [name for name in PROGRAMS if shutil.which(name) is None]
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(MISSING), reason=f"not here: {', '.join(MISSING)}"),
    pytest.mark.skipif(os.geteuid() != 0, reason="containers are made by root"),
]

REPORT = """
import os, pathlib
def failure(path):
    try:
        pathlib.Path(path).touch()
    except OSError as error:
        return error.strerror
command = pathlib.Path("/proc/1/cmdline").read_text().split("\\0")
print(os.getuid(), os.getgid(), command[1])
print(failure("/opt/x"), failure("/x"), failure("/tmp/x"))
"""


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    return Workshop(tmp_path_factory.mktemp("image"))


@pytest.fixture(scope="module")
def bundle(workshop, tmp_path_factory):
    release = tmp_path_factory.mktemp("release")
    command = [sys.executable, "deploy/package/release.py", str(release)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return workshop.bundle(release)


@pytest.fixture
def volume(tmp_path):
    folder = tmp_path / "volume"
    folder.mkdir(0o700)
    os.chown(folder, USER, USER)
    return folder


def test_the_image_says_how_it_is_run(bundle, workshop):
    description = workshop.configuration()
    assert description["User"] == f"{USER}:{USER}"
    assert description["Healthcheck"]["Test"] == ["CMD", "rotulus", "health"]
    assert description["Volumes"] == {VOLUME: {}}
    assert description["StopSignal"] == "SIGTERM"


def test_the_image_has_no_shell_no_package_manager_and_nothing_that_takes_rights(bundle):
    root = bundle / "rootfs"
    programs = {path.name for folder in ("bin", "usr/bin") for path in (root / folder).iterdir()}
    assert not programs & {"sh", "bash", "dash", "apt", "dpkg", "perl", "pip", "pip3", "gcc", "cc"}
    assert [*(root / "opt/rotulus/lib").glob("*/site-packages/pip*")] == []
    files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    assert [path for path in files if path.stat().st_mode & 0o6000] == []
    assert sorted((root / "opt/rotulus/share/sbom").iterdir())


def test_it_runs_the_demo_ends_at_sigterm_and_goes_on_on_the_same_volume(bundle, volume, tmp_path):
    output = tmp_path / "output"
    with running(bundle, volume, ["rotulus", "demo"], output) as container:
        while "dashboard" not in output.read_text():
            assert container.process.poll() is None, output.read_text()
            time.sleep(0.2)
        assert container.run("rotulus", "health", "--ready").returncode == 0
        assert container.run("sh", "-c", "true").returncode != 0
        report = container.run("python3", "-c", REPORT)
        assert report.stdout.splitlines() == [
            f"{USER} {USER} /opt/rotulus/bin/rotulus",
            "Read-only file system Read-only file system None",
        ]
        assert container.stop() == 0, output.read_text()
    first = output.read_text()
    assert ": verifies" in first
    again = tmp_path / "again"
    with running(bundle, volume, ["rotulus", "demo", "--exit", "--json"], again) as container:
        assert container.process.wait() == 0, again.read_text()
    text = again.read_text()
    # What goes on is said behind it.
    report, _ = json.JSONDecoder().raw_decode(text[text.index("{\n") :])
    assert report["record"]["verifies"]
    assert report["ingest"]["operations_accepted"] == 0
    assert report["ingest"]["operations_already_on_record"] > 0
