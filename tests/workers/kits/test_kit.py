"""Kits are read strictly: what does not fit is named, and nothing is guessed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.belief.errors import BeliefInputError
from kernel.belief.provider import HypothesisProvider
from workers.kits.kit import KIT_BYTES_MAX, bundled_kit, bundled_kits, kit_file, load_kit

HEAD = 'kind = "{}"\nid = "k"\nversion = "1"\nhypotheses = ["a", "b"]\n'
TWENTY = HEAD.format("twenty_questions")
BENCH = HEAD.format("itbench")


def probe(rows: str, name: str = "p") -> str:
    return f'[[probe]]\nid = "{name}"\nprompt = "P?"\n{rows}\n'


KEEP = '[probe.keep]\n"yes" = ["a"]\n"no" = ["b"]'


def test_the_bundled_kits_are_those_of_the_notes_and_each_is_a_provider():
    assert bundled_kits() == ["20q_4", "20q_8", "itb_min_4", "sre_6"]
    for name in bundled_kits():
        kit = bundled_kit(name)
        assert isinstance(kit, HypothesisProvider)
        assert (kit.id(), kit.version()) == (name, "1")


def test_yes_and_no_are_texts():
    kit = bundled_kit("20q_4")
    for name in kit.probe_ids():
        assert list(kit.probe(name).removes) == ["yes", "no"]
    assert kit.apply_probe("is_mammal", "no") == {"dog": True, "cat": True}


def test_an_itbench_row_is_what_it_removes():
    kit = bundled_kit("itb_min_4")
    assert kit.removed_hypotheses("check_replication_lag", "high") == (
        "db_connection_exhaustion",
        "bad_deploy",
    )


@pytest.mark.parametrize("name", ["20q_4", "20q_8"])
def test_no_and_yes_are_each_others_complement_in_the_bundled_questions(name):
    kit = bundled_kit(name)
    for probe_id in kit.probe_ids():
        yes, no = (set(kit.removed_hypotheses(probe_id, outcome)) for outcome in ("yes", "no"))
        assert yes | no == set(kit.hypothesis_ids())
        assert not yes & no


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("kind = ", "Invalid value"),
        (TWENTY, "probe: Field required"),
        (TWENTY + "extra = 1\n" + probe(KEEP), "extra"),
        (TWENTY + 'hypotheses = ["c"]\n' + probe(KEEP), "Cannot overwrite a value"),
        (TWENTY.replace('"1"', "1") + probe(KEEP), "version: Input should be a valid string"),
        (TWENTY.replace('"a", "b"', '"a", "a"') + probe(KEEP), "hypotheses: 'a' stands twice"),
        (TWENTY.replace('"a", "b"', "") + probe(KEEP), "hypotheses: List should have at least 1"),
        (TWENTY.replace("twenty_questions", "chess") + probe(KEEP), "kind: Input should be"),
        (TWENTY + probe(KEEP) + probe(KEEP), "probes: 'p' stands twice"),
        (TWENTY + probe(""), "p: a kit of twenty_questions says what an outcome keep"),
        (BENCH + probe(KEEP), "p: a kit of itbench says what an outcome removes"),
        (
            TWENTY + probe(KEEP + '\n[probe.removes]\n"yes" = ["b"]'),
            "p: a kit of twenty_questions says what an outcome keep",
        ),
        (BENCH + probe("[probe.removes]"), "p: has no outcomes"),
        (BENCH + probe('[probe.removes]\n"Full" = ["a"]'), "outcome 'Full' is not trimmed"),
        (BENCH + probe('[probe.removes]\n"full" = ["z"]'), "p: full names 'z', no hypothesis"),
        (BENCH + probe('[probe.removes]\n"full" = ["a", "a"]'), "p: full: 'a' stands twice"),
        (TWENTY + probe('[probe.keep]\n"yes" = ["a", "b"]'), 'the outcomes are "yes" and "no"'),
        (TWENTY + probe('[probe.keep]\n"yes" = ["a"]\n"no" = []'), "p: no answer keeps 'b'"),
    ],
)
def test_a_kit_that_does_not_fit_is_refused_by_name(content, says):
    with pytest.raises(BeliefInputError) as caught:
        load_kit(content.encode(), "mine")
    assert caught.value.code == "kit_invalid"
    assert str(caught.value).startswith("mine: ")
    assert says in str(caught.value)


def test_a_kit_has_a_size():
    with pytest.raises(BeliefInputError, match="more than"):
        load_kit(b"#" * (KIT_BYTES_MAX + 1))


def test_a_kit_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(BeliefInputError, match="No such file") as caught:
        kit_file(tmp_path / "none.toml")
    assert caught.value.code == "kit_invalid"
    (tmp_path / "own.toml").write_text(TWENTY + probe(KEEP))
    assert kit_file(tmp_path / "own.toml").hypothesis_ids() == ("a", "b")


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: bundled_kit("chess"), "kit_unknown"),
        (lambda: bundled_kit("20q_4").apply_probe("is_red", "yes"), "probe_unknown"),
        (lambda: bundled_kit("20q_4").apply_probe("is_mammal", "maybe"), "response_unknown"),
    ],
)
def test_what_a_kit_does_not_have_is_refused(call, code):
    with pytest.raises(BeliefInputError) as caught:
        call()
    assert caught.value.code == code


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_content_is_more_than_an_invalid_kit(content):
    with pytest.raises(BeliefInputError) as caught:
        load_kit(content)
    assert caught.value.code == "kit_invalid"
