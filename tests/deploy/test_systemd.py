"""The units are held against the product, and by systemd's own program."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.processes import changed, problems_of
from tests.deploy.unit_files import FOLDER, PROGRAM, processes

EXPOSURE_MAX = 15
"""In tenths, as `systemd-analyze security` counts what a service could do to the machine."""

PROCESSES = processes()
analyzes = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here"
)


def analyze(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = ["systemd-analyze", *words]
    return subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)


@pytest.fixture
def units(tmp_path):
    """The units as they are named, with a program that is here."""
    for name in PROCESSES:
        text = (FOLDER / re.sub(r"@\d+", "@", name)).read_text()
        (tmp_path / name).write_text(text.replace(PROGRAM, sys.executable))
    shutil.copy(FOLDER / "rotulus.target", tmp_path)
    return tmp_path


def test_the_target_starts_two_gateways_and_two_workers():
    assert [process.kind for process in PROCESSES.values()] == ["gateway"] * 2 + ["worker"] * 2


@pytest.mark.parametrize("name", PROCESSES)
def test_a_process_has_the_settings_that_it_needs_and_no_others(name, tmp_path):
    assert problems_of(PROCESSES[name], tmp_path) == []


@pytest.mark.parametrize("name", [*PROCESSES][1:3])
def test_what_is_wrong_with_a_process_is_said(name, tmp_path):
    for problem, process in changed(PROCESSES[name]):
        assert problem in "; ".join(problems_of(process, tmp_path))


def test_workers_ask_the_gateways_that_the_target_starts():
    variables = PROCESSES["rotulus-worker@9440.service"].variables
    urls = (variables["ROTULUS_GATEWAY_URL"], variables["ROTULUS_OTHER_GATEWAY_URLS"])
    gateways = [each for each in PROCESSES.values() if each.kind == "gateway"]
    assert list(urls) == [f"http://127.0.0.1:{port}" for each in gateways for port in each.ports]


@analyzes
def test_systemd_finds_nothing_wrong_with_the_units(units):
    # It ends with 0 even where it warns.
    report = analyze(units, "verify", "--man=no", "rotulus.target", *PROCESSES)
    assert (report.returncode, report.stderr) == (0, "")


@analyzes
def test_systemd_says_what_it_does_not_know(units):
    name = next(iter(PROCESSES))
    text = (units / name).read_text()
    (units / name).write_text(text.replace("PrivateTmp=", "PrivateTemp="))
    assert "PrivateTemp" in analyze(units, "verify", "--man=no", name).stderr


@analyzes
@pytest.mark.parametrize(("taken", "code"), [("", 0), ("CapabilityBoundingSet=\n", 1)])
def test_a_service_can_do_little_to_the_machine(units, taken, code):
    for name in PROCESSES:
        (units / name).write_text((units / name).read_text().replace(taken, ""))
        limit = f"--threshold={EXPOSURE_MAX}"
        report = analyze(units, "security", "--offline=true", limit, f"./{name}")
        assert report.returncode == code, report.stdout
