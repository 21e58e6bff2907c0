"""Globs over source paths (§13.8): the grammar, and what a glob matches."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.model.bindings.globs import GLOB_MAX, GlobInvalid, parse_glob
from tests.kernel.bindings.naive_globs import naive_match

spec = pytest.mark.spec("004 §13.8")

ITEMS = st.sampled_from(["a", "b", ".", "?", "*", "\\*", "\\\\", "\\[", "\n"])


def _no_double_star(items):
    return ("*", "*") not in pairwise(items)


SEGMENTS = st.one_of(
    st.just("**"), st.lists(ITEMS, max_size=4).filter(_no_double_star).map("".join)
)
GLOBS = st.lists(SEGMENTS, min_size=1, max_size=5).map("/".join)
PATHS = st.text("ab.*\\[\n/", max_size=10)


@spec
@given(GLOBS, PATHS)
def test_a_glob_matches_what_its_grammar_says(glob, path):
    assert parse_glob(glob).matches(path) == naive_match(glob, path)


@given(st.lists(st.sampled_from(["a", "b", "*", "?"]), min_size=1, max_size=12), st.data())
def test_a_glob_with_many_runs_matches_what_its_grammar_says(items, data):
    glob = "".join(items)
    while "**" in glob:
        glob = glob.replace("**", "*")
    path = data.draw(st.text("ab", max_size=14))
    assert parse_glob(glob).matches(path) == naive_match(glob, path)


@spec
@pytest.mark.parametrize(
    ("glob", "matched", "unmatched"),
    [
        ("ca9/entry-1", ["ca9/entry-1"], ["ca9/entry-11", "CA9/entry-1"]),
        ("dockets/*/entry-?", ["dockets/ca9/entry-1", "dockets//entry-1"], ["dockets/a/b/entry-1"]),
        ("**/*.pdf", ["a.pdf", "a/b/c.pdf", ".pdf"], ["a.pdf/b", "a.pdfs"]),
        ("a/**", ["a", "a/", "a/b/c"], ["ab", "b/a"]),
        ("a/**/z", ["a/z", "a/b/z", "a/z/z"], ["az", "a/z/b"]),
        ("**", ["", "a", "/a/b"], []),
        ("/a", ["/a"], ["a"]),
        (r"a\*b\[1\]", ["a*b[1]"], ["axb[1]", "ab1"]),
        ("a b\n*", ["a b\nc"], ["a b"]),
    ],
)  # fmt: skip
def test_examples_of_the_grammar(glob, matched, unmatched):
    read = parse_glob(glob)
    assert [path for path in matched if not read.matches(path)] == []
    assert [path for path in unmatched if read.matches(path)] == []


@spec
@pytest.mark.parametrize(
    "broken",
    [
        *("a**", "**b", "***", "a/x**y", "[ab]", "a]", "{a,b}", "a}", "a\\", "a\\/b", "a\x00"),
        *("\\\x00", "x" * (GLOB_MAX + 1)),
    ],
)
def test_a_glob_that_breaks_the_grammar_is_refused(broken):
    with pytest.raises(GlobInvalid):
        parse_glob(broken)


@spec
def test_what_would_be_tried_again_and_again_is_tried_once():
    """With backtracking over each wildcard these would take longer than any test may."""
    letters, segments = "a" * 4000, "/".join("a" * 2000)
    assert not parse_glob("*a" * 200 + "*b").matches(letters)
    assert parse_glob("*a" * 200 + "*").matches(letters)
    assert not parse_glob("**/a/" * 80 + "b").matches(segments)
    assert not parse_glob("**/*a*a/" * 50 + "b").matches(segments)
    assert not parse_glob("**/*/" * 80 + "b").matches(segments)


@given(GLOBS)
def test_any_number_of_segments_twice_is_any_number_of_segments(glob):
    assert parse_glob(f"**/**/{glob}").segments == parse_glob(f"**/{glob}").segments
