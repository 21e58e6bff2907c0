"""What the READMEs say is so."""

import re
from collections import Counter
from pathlib import Path

import pytest

from kernel.algebra.effects import EFFECT_KINDS
from tests import readme_examples, registry_doc
from tests.rulings import FOLDERS, is_test, rulings
from workers.cli.main import COMMANDS
from workers.environment.settings import settings_table

ROOT = Path(__file__).parent.parent
DECISION_HEADINGS = ["Context", "Decision", "Cost", "Rejected"]

# A decision is cited as folder and number, `decision <folder>/<four digits>`, its page is
# `<folder>/decisions/<four digits>-slug.md`.
_CITATION = re.compile(rf"(?<![\w/])({'|'.join(FOLDERS)})/(\d{{4}})(?![\w-])")
_SUPERSEDED = re.compile(r"^Superseded by (\d{4})\.?$", re.MULTILINE)
_CITING = {".py", ".lua", ".md", ".toml", ".proto", ".js", ".html", ".css", ".yml"}


README_WORDS_MAX = 1700


def test_the_readme_is_finished_by_whoever_begins_it():
    assert len((ROOT / "README.md").read_text().split()) <= README_WORDS_MAX


def test_the_settings_page_lists_every_setting_once_with_its_default_and_meaning():
    page = (ROOT / "deploy" / "settings.md").read_text()
    rows = [f"| `{name}` | {default} | {meaning} |" for name, default, meaning in settings_table()]
    shown = [line for line in page.splitlines() if line.startswith("| `ROTULUS_")]
    assert sorted(shown) == sorted(rows)


def test_the_page_of_the_command_line_names_every_command():
    page = (ROOT / "workers" / "cli" / "README.md").read_text()
    for name in COMMANDS:
        assert f"rotulus {name}" in page


def test_every_link_of_a_page_leads_to_a_file():
    pages = [ROOT / "README.md", *(page for page in _sources() if page.suffix == ".md")]
    dead = [
        (page.relative_to(ROOT), target)
        for page in pages
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert dead == []


def test_every_shell_example_of_the_readme_is_run_or_says_why_it_is_not():
    examples = readme_examples.examples()
    assert sorted(examples) == sorted([*readme_examples.ANSWERS, *readme_examples.NOT_RUN])


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
    names = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    assert tracked <= names


@pytest.mark.parametrize(("page", "words_max"), [("README.md", 1700), ("CHANGELOG.md", 800)])
def test_a_page_that_everybody_reads_is_one_that_one_finishes(page: str, words_max: int):
    assert len((ROOT / page).read_text().split()) <= words_max


@pytest.mark.spec("K1")
def test_the_algebras_tables_are_what_the_registry_says():
    written = (ROOT / "kernel" / "algebra" / "REFERENCE.md").read_text()
    assert written == registry_doc.text(), "make registry"


def _sources() -> list[Path]:
    inside = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    return [path for path in (*inside, *ROOT.iterdir()) if path.suffix in _CITING]


def _pages() -> list[Path]:
    return [page for folder in FOLDERS for page in (ROOT / folder / "decisions").glob("[0-9]*.md")]


def _id_of(page: Path) -> tuple[str, str]:
    return page.parent.parent.name, page.name[:4]


def _citations(paths: list[Path]) -> set[tuple[str, str]]:
    texts = (path.read_text(encoding="utf-8") for path in paths)
    return {(folder, number) for text in texts for folder, number in _CITATION.findall(text)}


def test_every_decision_that_is_cited_has_its_page():
    known = {_id_of(page) for page in _pages()}
    assert _citations(_sources()) - known == set()


def test_every_decision_is_cited_from_code_or_a_readme_or_superseded():
    pages = _pages()
    cited = _citations([path for path in _sources() if path.parent.name != "decisions"])
    current = {_id_of(page) for page in pages if not _SUPERSEDED.search(page.read_text())}
    assert current - cited == set()


def test_a_superseded_decision_names_a_page_of_its_folder():
    known = {_id_of(page) for page in _pages()}
    for page in _pages():
        for number in _SUPERSEDED.findall(page.read_text()):
            assert (_id_of(page)[0], number) in known, page.name


def test_no_number_of_a_decision_stands_twice():
    counts = Counter(_id_of(page) for page in _pages())
    assert [number for number, count in counts.items() if count > 1] == []


def test_every_decision_stands_once_in_the_index_of_its_folder_by_its_title():
    lines = [
        f"- [{page.name[:4]}]({page.name}) {page.read_text().partition(chr(10))[0][8:]}"
        for page in _pages()
    ]
    indexes = {page.parent / "README.md" for page in _pages()}
    listed = [
        line
        for index in indexes
        for line in index.read_text().splitlines()
        if line.startswith("- [")
    ]
    assert sorted(listed) == sorted(lines)


def test_a_page_has_its_number_in_its_title_and_four_headings():
    for page in _pages():
        text = page.read_text()
        assert re.fullmatch(r"\d{4}-[a-z0-9-]+\.md", page.name), page
        assert text.startswith(f"# {page.name[:4]}. "), page
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == DECISION_HEADINGS, page
        assert len(text.split()) <= 500, f"{page} is longer than a page"


def test_every_ruling_names_a_test_that_exists():
    for ruling in rulings():
        assert ruling.tests, ruling
        assert [test for test in ruling.tests if not is_test(test)] == [], ruling
