"""A release has the same bytes whenever it is built, and says what it needs."""

import hashlib
import json
import re
import shutil
import tarfile
from datetime import UTC, datetime
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import click
import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

import release
from tests.package.installation import ROOT
from tests.workers.cli.command import commands, rotulus
from workers.cli.main import COMMANDS, main

AT = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)
PACKAGES = release.locked_packages()


def bill_of(name: str, wheel: Path) -> dict[str, Any]:
    text = release.bill_of_materials(PACKAGES, name, wheel, AT)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert text == release.bill_of_materials(PACKAGES, name, wheel, AT)
    bill: dict[str, Any] = json.loads(text)
    return bill


def test_a_wheel_has_the_same_bytes_in_another_folder(tmp_path: Path):
    client = release.PROJECTS["rotulus-client"]
    wheel = release.build_twice(client, tmp_path, AT)
    # Neither where it lies nor when its files were written tells on it.
    moved = tmp_path / "workers" / "client"
    shutil.copytree(
        client, moved, ignore=shutil.ignore_patterns("__pycache__"), copy_function=shutil.copy
    )
    shutil.copy(ROOT / "LICENSE", tmp_path)
    elsewhere = tmp_path / "wheels"
    elsewhere.mkdir()
    assert release.build_twice(moved, elsewhere, AT).read_bytes() == wheel.read_bytes()


def test_a_wheel_that_differs_when_it_is_built_again_ends_the_build(tmp_path: Path, monkeypatch):
    def build(_: Path, folder: Path, __: datetime) -> Path:
        wheel = folder / "a.whl"
        wheel.write_text(str(folder))
        return wheel

    monkeypatch.setattr(release, "build_wheel", build)
    with pytest.raises(SystemExit, match=r"a\.whl has other bytes"):
        release.build_twice(ROOT, tmp_path, AT)


@pytest.mark.parametrize("name", release.PROJECTS)
def test_a_bill_names_all_that_is_installed_with_a_wheel(name: str, tmp_path: Path):
    wheel = tmp_path / "some.whl"
    wheel.write_bytes(b"of this content")
    bill = bill_of(name, wheel)
    own = bill["metadata"]["component"]
    assert own["name"] == name
    assert own["hashes"] == [
        {"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}
    ]
    named = {each["name"] for each in bill["components"]}
    needs = [
        re.split(r"[^\w.-]", each)[0] for each in requires(name) or () if "extra ==" not in each
    ]
    assert named >= set(needs)
    for component in bill["components"]:
        locked = PACKAGES[component["name"]]
        assert component["version"] == locked["version"]
        assert component["licenses"]
    # Each is reached from the wheel, and only what is named is reached.
    below = {each["ref"]: each.get("dependsOn", []) for each in bill["dependencies"]}
    reached, waiting = set[str](), [own["bom-ref"]]
    while waiting:
        ref = waiting.pop()
        if ref not in reached:
            reached.add(ref)
            waiting += below[ref]
    assert reached - {own["bom-ref"]} == {each["bom-ref"] for each in bill["components"]}


def test_what_an_extra_brings_is_named():
    assert {"hiredis", "psycopg-binary"} <= {*release.requirements_of(PACKAGES, "rotulus")}


def test_a_release_is_written_into_an_empty_folder_alone(tmp_path: Path):
    (tmp_path / "old.whl").touch()
    with pytest.raises(SystemExit, match="is not empty"):
        release.main(tmp_path)


def test_the_archive_for_operators_is_the_same_each_time(
    tmp_path: Path,
):
    archives = [tmp_path / f"{name}.tar.gz" for name in ("first", "second")]
    for path in archives:
        release.write_deploy_archive(path)
    first, second = (path.read_bytes() for path in archives)
    assert first == second
    with tarfile.open(archives[0]) as archive:
        members = {member.name: member for member in archive}
    assert members["deploy/compose/secrets.sh"].mode & 0o777 == 0o755
    assert members["deploy/settings.md"].mode & 0o777 == 0o644
    assert {"deploy/container/Containerfile", "deploy/systemd/rotulus.target"} <= {*members}
    assert not [name for name in members if name.startswith("deploy/package")]


@pytest.mark.nightly
def test_a_release_is_what_its_sums_say(tmp_path: Path):
    release.main(tmp_path)
    sums = (tmp_path / "SHA256SUMS").read_text()
    listed = [line.split() for line in sums.splitlines()]
    for digest, name in listed:
        assert hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() == digest
    names = {name for _, name in listed}
    assert names == {each.name for each in tmp_path.iterdir()} - {"SHA256SUMS"}
    assert len([each for each in names if each.endswith(".whl")]) == 2


def test_the_manual_page_has_every_command_and_option():
    page = rotulus("man", "--day", "2026-11-01").output
    assert page.startswith('.TH ROTULUS 1 "2026-11-01"')
    text = page.replace("\\-", "-").replace("\\&", "").replace("\\e", "\\")
    stretches = dict(stretch.split("\n", 1) for stretch in text.split(".SS ")[1:])
    everywhere = {each.name for each in main.params}
    for name in COMMANDS:
        for path, command in commands(name):
            words = " ".join(path)
            usage = command.collect_usage_pieces(click.Context(command, info_name=words))
            stretch = stretches.pop(" ".join(("rotulus", words, *usage)))
            for option in command.params:
                if isinstance(option, click.Option) and option.name not in everywhere:
                    assert option.opts[0] in stretch, path
    assert stretches == {}


def test_no_line_of_the_manual_page_is_a_request_that_a_text_has_made():
    page = rotulus("man").output
    assert page.isascii()
    requests = {line.split()[0] for line in page.splitlines() if line.startswith((".", "'"))}
    assert requests == {".TH", ".SH", ".SS", ".PP", ".TP"}


@pytest.mark.parametrize(
    ("shell", "begins"),
    [
        ("bash", "_rotulus_completion()"),
        ("zsh", "#compdef rotulus"),
        ("fish", "function _rotulus_completion"),
    ],
)
def test_a_shell_completes_commands_by_the_printed_script(shell: str, begins: str):
    script = rotulus("completion", shell).output
    assert script.startswith(begins)
    assert f"_ROTULUS_COMPLETE={shell}_complete" in script
