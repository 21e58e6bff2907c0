"""Scripts and the Containerfile are read by the programs that know what is wrong with such."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.processes import DEPLOY
from workers.environment.settings import GATEWAY_PORT

PROGRAMS = Path(sys.executable).parent
CONTAINERFILE = DEPLOY / "container" / "Containerfile"
SCRIPTS = [*DEPLOY.rglob("*.sh"), DEPLOY.parent / ".ci" / "run"]


def needs(program: str) -> pytest.MarkDecorator:
    missing = not (PROGRAMS / program).exists()
    return pytest.mark.skipif(missing, reason=f"there is no wheel of {program} for this machine")


def read_by(program: str, path: Path) -> subprocess.CompletedProcess[str]:
    command = [PROGRAMS / program, path]
    return subprocess.run(command, check=False, capture_output=True, text=True)


@needs("shellcheck")
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_script_has_no_warning(path):
    report = read_by("shellcheck", path)
    assert (report.returncode, report.stdout) == (0, "")


@needs("hadolint")
def test_the_containerfile_has_no_warning(tmp_path):
    report = read_by("hadolint", CONTAINERFILE)
    assert (report.returncode, report.stdout) == (0, "")
    worse = tmp_path / "Containerfile"
    worse.write_text(f"{CONTAINERFILE.read_text()}MAINTAINER nobody\n")
    assert read_by("hadolint", worse).returncode == 1


def test_the_base_is_pinned_and_the_user_is_a_number():
    text = CONTAINERFILE.read_text()
    [base] = re.findall(r"^ARG BASE=(.*)$", text, re.MULTILINE)
    assert re.fullmatch(r"\S+:\S+@sha256:[0-9a-f]{64}", base)
    assert {*re.findall(r"^FROM (\S+)", text, re.MULTILINE)} == {"${BASE}", "scratch"}
    assert re.findall(r"^USER (.*)$", text, re.MULTILINE) == ["10001:10001"]
    assert re.findall(r"^EXPOSE (.*)$", text, re.MULTILINE) == [str(GATEWAY_PORT)]
