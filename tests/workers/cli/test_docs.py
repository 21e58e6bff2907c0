"""`rotulus docs` shows every page of the release, offline, to nobody but this machine."""

import re
import signal
import socket
import subprocess
from html.parser import HTMLParser
from typing import Any

import pytest

from tests import loopback
from tests.process_environment import process_environment
from tests.system.tree_run import COMMAND
from tests.workers.cli.command import rotulus
from workers.cli import pages
from workers.cli.docs import answer


def ask(path: str, **changes: str) -> tuple[str, dict[str, str], str]:
    """The status, the headers and the text that a reader gets."""
    environ: dict[str, Any] = {"HTTP_HOST": "127.0.0.1:1234", "REQUEST_METHOD": "GET"}
    environ |= {"PATH_INFO": path, **changes}
    got: list[Any] = []
    body = answer(environ, lambda status, headers, _=None: got.append((status, headers)))
    [(status, headers)] = got
    return status[:3], dict(headers), b"".join(body).decode(errors="replace")


class Parts(HTMLParser):
    """What a page leads to, and the places in it to which others lead."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links, self.ids, self.tags = list[str](), set[str](), set[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        attributes = dict(attrs)
        self.ids.add(attributes.get("id") or "")
        if tag == "a" and (target := attributes.get("href")):
            self.links.append(target)


def test_every_link_of_every_page_leads_to_a_place_in_a_page():
    parts = {path: Parts(pages.html_of(path)) for path in pages.paths()}
    assert len(parts) > 40
    for path, page in parts.items():
        for link in page.links:
            if link.startswith(("https://", "http://")) or link in ("/", "/contents"):
                continue
            target, _, place = link.removeprefix("/").partition("#")
            assert target in parts, (path, link)
            assert not place or place in parts[target].ids, (path, link)


def test_a_page_runs_nothing_and_fetches_nothing_from_elsewhere():
    for path in pages.paths():
        assert not Parts(pages.html_of(path)).tags & {"script", "iframe", "link", "object"}
        assert not re.search(r'src="(?!deploy/|pictures/)', pages.html_of(path)), path
    _, headers, _ = ask("/")
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")


def test_the_front_leads_to_each_reader_and_the_list_has_every_page():
    _, _, front = ask("/")
    for reader in ("producer", "operator", "auditor", "parts"):
        assert f'href="/deploy/guides/{reader}.md"' in front
    _, _, contents = ask("/contents")
    assert all(f'href="/{path}"' in contents for path in pages.paths())
    assert ask("/deploy/pictures/page.png")[1]["Content-Type"] == "image/png"


@pytest.mark.parametrize(
    ("path", "changes", "status"),
    [
        ("/", {"HTTP_HOST": "rebound.example"}, "421"),
        ("/", {"REQUEST_METHOD": "POST"}, "405"),
        ("/../pyproject.toml", {}, "404"),
        ("/deploy/pictures/../../pyproject.toml", {}, "404"),
        ("/deploy/pictures/../runbook.md", {}, "404"),
        ("//etc/passwd", {}, "404"),
        ("/workers/cli/main.py", {}, "404"),
    ],
)
def test_what_is_no_page_is_not_shown(path, changes, status):
    answered, _, text = ask(path, **changes)
    assert answered == status
    assert "root:" not in text
    assert "[project]" not in text


@pytest.mark.slow
def test_pages_are_served_beside_readers_who_ask_nothing_until_ctrl_c():
    command = [str(COMMAND), "docs", "--no-browser"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=process_environment(), **pipes) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        port = int(line.split(":")[2].split("/")[0])
        with socket.create_connection(("127.0.0.1", port)) as silent:
            page = loopback.get(f"http://127.0.0.1:{port}/deploy/runbook.md")
            assert "<h1" in page.text
            silent.sendall(b"GET / HTTP/1.1\r\n")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert (process.returncode, errors) == (0, "")


def test_a_page_is_printed_by_the_end_of_its_name_and_listed():
    assert rotulus("docs", "--print", "runbook").stdout == pages.text_of("deploy/runbook.md")
    assert rotulus("docs", "--print", "workers/cli").stdout.startswith("# The command line")
    listed = rotulus("docs", "--list").stdout.splitlines()
    assert len(listed) == len(pages.paths())
    assert any(line.split() == ["deploy/runbook", "Runbook"] for line in listed)


@pytest.mark.parametrize(("name", "meant"), [("runbok", "deploy/runbook"), ("README.md", "")])
def test_a_page_that_is_not_there_is_named_with_those_that_may_be_meant(name, meant):
    refused = rotulus("docs", "--print", name)
    assert refused.exit_code == (1 if meant else 0)
    assert ("page_unknown" in refused.stderr) == bool(meant)
    assert meant in refused.stderr
