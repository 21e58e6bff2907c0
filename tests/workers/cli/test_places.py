"""`--data-dir` and `--gateway` mean the same in whatever place of a command line they stand."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from tests.workers.cli.command import commands, rotulus
from workers.cli import places
from workers.cli.common import gateway_url, read_settings
from workers.cli.main import COMMANDS, main
from workers.cli.places import REFUSED, refusal_of

URL = "http://127.0.0.1:9"
OPTIONS = {"data_dir": ("--data-dir", "elsewhere"), "gateway": ("--gateway", URL)}


def lines_with(path: tuple[str, ...], option: tuple[str, str]) -> Iterator[tuple[str, ...]]:
    """Yield the command line with the option behind each of its words, and before the first."""
    for place in range(len(path) + 1):
        yield (*path[:place], *option, *path[place:])


@pytest.fixture
def reached(monkeypatch) -> list[Any]:
    """What the command lines of this test gave to a command that is called with nothing else."""
    named: list[Any] = []

    def record(**_: object) -> None:
        named.append({"data_dir": places.named_folder(), "gateway": places.named_gateway()})

    for name in COMMANDS:
        for _, command in commands(name):
            if not isinstance(command, click.Group):
                monkeypatch.setattr(command, "callback", record)
            for parameter in command.params:
                monkeypatch.setattr(parameter, "required", False)
    return named


@pytest.mark.parametrize("option", OPTIONS)
def test_both_options_stand_in_every_place_or_are_refused_with_the_reason(reached, option):
    for name in COMMANDS:
        for path, command in commands(name):
            if isinstance(command, click.Group):
                continue
            why = getattr(refusal_of(" ".join(path)), option)
            for line in lines_with(path, OPTIONS[option]):
                result = rotulus(*line, stdin="")
                assert result.exit_code == (2 if why else 0), (line, result.output)
                assert why in result.output
                if not why:
                    assert str(reached.pop()[option]) == OPTIONS[option][1], line
            shown = OPTIONS[option][0] in rotulus(*path, "--help").output
            assert shown == (not why), path
    assert reached == []


def test_what_is_refused_is_refused_by_a_command_that_there_is():
    known = {" ".join(path) for name in COMMANDS for path, _ in commands(name)}
    assert REFUSED.keys() - known == set()


def test_of_several_the_last_counts(reached):
    first, last = ("--data-dir", "a", "--gateway", URL), ("--data-dir", "b")
    assert rotulus(*first, "queues", "pause", *last, "authority-recompute").exit_code == 0
    assert reached == [{"data_dir": Path("b"), "gateway": URL}]


def test_a_gateway_that_is_named_is_asked_before_that_of_the_folder(data_folder):
    seen = []

    def look() -> None:
        seen.append(gateway_url(read_settings()))

    with data_folder.lock():
        data_folder.write_runtime({"gateway_url": "http://127.0.0.1:7"})
        for named in ((), ("--gateway", URL)):
            with main.make_context("rotulus", [*named, "status"]):
                look()
    assert seen == ["http://127.0.0.1:7", URL]


@pytest.mark.parametrize("url", ["localhost:1", "", "redis://localhost"])
def test_a_gateway_is_a_url(url):
    result = rotulus("status", "--gateway", url)
    assert result.exit_code == 2
    assert "'--gateway'" in result.stderr
    assert "http:// or https://" in result.stderr


@pytest.mark.parametrize(
    ("line", "printed_text"),
    [
        (("--data-dir", "a b", "queues", "pause", "q"), "`rotulus --data-dir 'a b' up`"),
        (("--gateway", URL, "queues", "pause", "q"), "`rotulus up`"),
        (("queues", "pause", "q"), "`rotulus up`"),
    ],
)
def test_a_command_in_a_text_names_the_places_that_it_takes(monkeypatch, line, printed_text):
    seen = []
    [(_, command)] = [each for each in commands("queues") if each[0] == ("queues", "pause")]
    text = "see `rotulus up`, and `other up`"
    monkeypatch.setattr(command, "callback", lambda **_: seen.append(places.with_places(text)))
    assert rotulus(*line).exit_code == 0
    assert seen == [f"see {printed_text}, and `other up`"]
