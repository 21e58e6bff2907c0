"""What the READMEs say is so."""

import re
from pathlib import Path

import pytest

from kernel.algebra.effects import EFFECT_KINDS
from tests import registry_doc
from workers.cli.main import COMMANDS
from workers.environment.settings import settings_table

ROOT = Path(__file__).parent.parent
FOLDERS = ("actors", "queues", "kernel", "workers", "tests", "deploy")


def test_the_readme_lists_every_setting_once_with_its_default_and_meaning():
    readme = (ROOT / "README.md").read_text()
    rows = [f"| `{name}` | {default} | {meaning} |" for name, default, meaning in settings_table()]
    shown = [line for line in readme.splitlines() if line.startswith("| `ROTULUS_")]
    assert sorted(shown) == sorted(rows)


def test_the_readme_names_every_command():
    readme = (ROOT / "README.md").read_text()
    for name in COMMANDS:
        assert f"rotulus {name}" in readme


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_folder_has_a_readme_that_the_readme_links_to(folder):
    assert (ROOT / folder / "README.md").is_file()
    assert f"]({folder}/README.md)" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_a_folders_readme_names_is_there(folder):
    readme = (ROOT / folder / "README.md").read_text()
    rows = [line for line in readme.splitlines() if line.startswith("| `")]
    for row in rows:
        for name in re.findall(r"`([\w/]+(?:\.py|\.txt|/))`", row.split("|")[1]):
            assert (ROOT / folder / name).exists(), f"{folder}/README.md names {name}"


@pytest.mark.spec("K1", "K3")
def test_every_reversible_kind_has_an_inverse_that_is_a_kind_and_undone_by_it():
    for kind in EFFECT_KINDS.values():
        assert kind.canonical in EFFECT_KINDS
        if kind.reversibility == "fully_reversible":
            assert kind.inverses
            assert kind.name in EFFECT_KINDS[kind.inverses[0]].inverses


def test_the_top_level_is_the_fixed_one():
    tracked = {
        "actors",
        "queues",
        "kernel",
        "workers",
        "tests",
        "deploy",
        "README.md",
        "pyproject.toml",
        "uv.lock",
        "Makefile",
        "CHANGELOG.md",
        "LICENSE",
    }
    found = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    assert tracked <= found


@pytest.mark.spec("K1")
def test_the_algebras_tables_are_what_the_registry_says():
    written = (ROOT / "kernel" / "algebra" / "README.md").read_text()
    assert written == registry_doc.text(), "make registry"
