"""Every regular expression of the product takes steps in proportion to the text that it reads.

`re` goes back over a text where a pattern leaves it a choice, so a stranger's text can take it the
square of its length or worse. Steps are counted by a matcher of the tests' own, without a clock;
see `tests/regex_steps.py` for what it does and `tests/collected_patterns.py` for what is collected.
Patterns of pydantic's models are the `regex` crate's, which is linear by its construction.

Decision kernel/0565 says why.
"""

import random
import re

import pytest
from fastapi.routing import APIRoute

from actors.synthesis import local_model
from actors.synthesis.local_model import READ_AT_ONCE_CHARS, LocalModel, sentences, words
from actors.synthesis.model_client import ModelCall, ModelParameters
from kernel.model.bindings import globs
from tests.collected_patterns import PACKAGES, ROOT, Collected, collected
from tests.regex_steps import what_grows
from workers.api.app import MODULES
from workers.api.application import RouteTable
from workers.dockets import normalisation, postures

_GLOBS = ("**/a/**/b*c", "a*b?c*/**", "**/*a*b*", "a/**/b/**/c*d", "*a*a*a*", "**/a?a/b", "**")

_ROUTES = [route for module in MODULES for route in module.router.routes]
_PATHS = RouteTable(route for route in _ROUTES if isinstance(route, APIRoute))._expression  # noqa: SLF001

MADE_LATER: dict[str, list[tuple[str, int, set[str]]]] = {
    "kernel/model/bindings/globs.py": [
        (globs._regex(globs.parse_glob(text).segments), 0, {"fullmatch"})  # noqa: SLF001
        for text in _GLOBS
    ],
    "workers/api/application.py": [(_PATHS.pattern, 0, {"match"})],
    "workers/dockets/normalisation.py": [
        (pattern, re.IGNORECASE, {"fullmatch"})
        for forms in (normalisation.CASE_NUMBER_FORMS, normalisation.COURT_ID_FORMS)
        for _, pattern, _ in forms
    ],
    "workers/dockets/postures.py": [
        (pattern, 0, {"search"})
        for flavour in postures._FLAVOURS  # noqa: SLF001
        for pattern in flavour[1:4]
    ],
}
"""Patterns that functions make of their arguments, by the file that makes them."""

_IN_JAVASCRIPT = re.compile(
    r"(?<=[(=!,:])\s*/(?![/*])((?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+)/[gimsuy]*(?=[.,);])"
)
SQUARE = (
    (r"[^.!?\n]*[^.!?\s][^.!?\n]*[.!?]*", 0),
    (r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/|\()*(select|with|values)\b", re.DOTALL),
    (r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL),
    (r"(a+)+$", 0),
    (r"^(a|aa)+$", 0),
    (r"\s+$", 0),
    (r"x.*y.*z", 0),
    (r"(?:[^(]|\(.*?\))*end", 0),
    (r"\d+\.\d+x", 0),
    (r"(?:/\*(?:[^*]++|\*(?!/))*+\*/)*+(select)?", 0),
    (rb"=(.*),(.*)!", 0),
    (r"(?:a|b|ab)*c", 0),
    (r"(?<=x)\w+!", 0),
)
LINEAR = (
    (r"[a-z]+", 0),
    (r"[0-9a-f]{64}", 0),
    (r'"(?:[^"\\]++|\\.)*+"?', 0),
    (r"a{1,400}b", 0),
    (r"\A(?:\s++|/\*(?:[^*]++|\*(?!/))*+\*/)*+(select)?", re.IGNORECASE),
    (r"\b(?:one|two) \w{1,20}", 0),
    (rb"\A(?>a*)b\Z", 0),
)


@pytest.mark.parametrize(("pattern", "flags"), SQUARE)
def test_a_pattern_that_goes_back_is_found(pattern, flags):
    assert what_grows(pattern, flags, searches=True)


@pytest.mark.parametrize(("pattern", "flags"), LINEAR)
def test_a_linear_pattern_is_not_taken_for_another(pattern, flags):
    assert what_grows(pattern, flags, searches=True) is None


def faults_of(patterns: list[Collected]) -> list[str]:
    return [
        f"{each.site.file}:{each.site.first_line}: {grows}"
        for each in patterns
        if (grows := what_grows(each.pattern, each.flags, searches=each.searches, whole=each.whole))
    ]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("package", PACKAGES)
def test_every_pattern_of_a_package_is_linear(package):
    patterns = [each for each in collected()[0] if each.site.file.startswith(f"{package}/")]
    assert patterns
    assert faults_of(patterns) == []


def test_every_pattern_is_collected_or_in_the_table_of_those_that_functions_make():
    patterns, later = collected()
    assert len(patterns) > 250
    assert {site.file for site in later} == set(MADE_LATER)


@pytest.mark.parametrize("file", MADE_LATER)
def test_what_a_function_makes_of_its_arguments_is_linear(file):
    for pattern, flags, uses in MADE_LATER[file]:
        searches = uses == {"search"}
        assert what_grows(pattern, flags, searches=searches, whole=not searches) is None, pattern


def test_every_pattern_of_the_scripts_is_linear():
    paths = [
        path
        for package in PACKAGES
        for end in ("mjs", "js")
        for path in ROOT.glob(f"{package}/**/*.{end}")
    ]
    literals = [
        (path.name, match[1])
        for path in paths
        for match in _IN_JAVASCRIPT.finditer(path.read_text())
    ]
    assert len(literals) >= 8
    for name, pattern in literals:
        if r"\p{" not in pattern:  # a class of one character, which this Python cannot name
            here = pattern.replace("[^]", r"[\s\S]").replace("[[", r"[\[")
            assert what_grows(here, 0, searches=True) is None, (name, pattern)


def test_words_are_cut_as_before():
    chosen = random.Random(19)
    for _ in range(2000):
        text = "".join(chosen.choices("aé_0 .\n-", k=chosen.randint(0, 14)))
        assert words(text) == re.findall(r"\w+", text)
    assert words(" " * 9000 + "a" + "." * 4096 + "b") == ["a", "b"]
    assert words(" " * 8192) == []


def test_sentences_are_cut_as_by_the_pattern_that_took_the_square():
    """What the local model answers is on the record, so it may not change."""
    earlier, chosen = re.compile(r"[^.!?\n]*[^.!?\s][^.!?\n]*[.!?]*"), random.Random(18)
    for _ in range(4000):
        text = "".join(chosen.choices("ab .!?\n\t\u00a0\x1c", k=chosen.randint(0, 14)))
        assert sentences(text) == [match[0].strip() for match in earlier.finditer(text)]


@pytest.mark.anyio
@pytest.mark.parametrize("length", [0, 2 * READ_AT_ONCE_CHARS])
async def test_the_local_model_reads_what_is_long_on_a_thread(monkeypatch, length):
    ran = []

    async def run_sync(function, *arguments):
        ran.append(function)
        return function(*arguments)

    monkeypatch.setattr(local_model.anyio.to_thread, "run_sync", run_sync)
    prompt = (
        f'<UNTRUSTED_CONTENT source="doc-1" kind="content">\nIt rained.{" " * length}\n'
        "</UNTRUSTED_CONTENT>\n<USER_QUERY>\nDid it?\n</USER_QUERY>"
    )
    await LocalModel().complete(ModelCall(prompt, ModelParameters()))
    assert len(ran) == (length > 0)
