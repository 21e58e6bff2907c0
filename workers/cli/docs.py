"""Runs `rotulus docs`: the pages of this release, in a browser or in this terminal, offline.

They are served on loopback alone, at a free port, until Ctrl-C. Nothing of a page comes from
elsewhere, and no page runs a script (decision workers/0655).
"""

import webbrowser
from collections.abc import Iterable
from contextlib import suppress
from socketserver import ThreadingMixIn
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIEnvironment

import click

from workers.cli import pages
from workers.cli.common import clean_errors
from workers.environment.host_names import LOOPBACK_NAMES, host_name
from workers.environment.listening import listen, port_of
from workers.environment.output import announce, echo, echo_text

HOST: Final = "127.0.0.1"
READER_S: Final = 2.0
"""Who has asked for nothing by then makes others wait no longer."""

_HEADERS: Final = (
    ("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; img-src 'self'"),
    ("X-Content-Type-Options", "nosniff"),
    ("Cache-Control", "no-store"),
)
_HTML: Final = "text/html; charset=utf-8"


@click.command()
@click.option("--print", "name", metavar="PAGE", help="Print a page here, such as `runbook`.")
@click.option("--list", "is_listed", is_flag=True, help="List the pages.")
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=0, help="Port to bind.  [any free one]"
)
@click.option("--browser/--no-browser", default=True, help="Open a browser, or serve alone.")
def docs(name: str | None, port: int, *, is_listed: bool, browser: bool) -> None:
    """Open the pages of this release: tutorials, runbook, reference; it needs no network."""
    with clean_errors():
        if name is not None:
            echo_text(pages.text_of(pages.path_of(name)))
        elif is_listed:
            echo(*(f"{pages.name_of(path):40}{pages.title_of(path)}" for path in pages.paths()))
        else:
            _serve(port, in_browser=browser)


def _serve(port: int, *, in_browser: bool) -> None:
    listening = listen(HOST, port, "--port")
    with _Server(listening.getsockname(), _Handler, bind_and_activate=False) as server:
        server.socket.close()
        server.socket = listening
        # Without asking a name server who we are.
        server.server_name, server.server_port = HOST, port_of(listening)
        server.setup_environ()
        server.set_app(answer)
        url = f"http://{HOST}:{server.server_port}/"
        announce(f"pages at {url} until Ctrl-C")
        if in_browser:
            webbrowser.open(url)
        with suppress(KeyboardInterrupt):
            server.serve_forever()


def answer(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
    """Answer a reader with a page, a picture of one, or the list of all."""
    if host_name(environ.get("HTTP_HOST", "")) not in LOOPBACK_NAMES:
        return _send(start, "421 Misdirected Request", _HTML, b"")
    if environ["REQUEST_METHOD"] != "GET":
        return _send(start, "405 Method Not Allowed", _HTML, b"")
    path = environ["PATH_INFO"].lstrip("/") or pages.FRONT
    if path == "contents":
        return _send(start, "200 OK", _HTML, pages.contents_html().encode())
    if path in pages.paths():
        return _send(start, "200 OK", _HTML, pages.html_of(path).encode())
    if picture := pages.picture_of(path):
        return _send(start, "200 OK", *picture)
    return _send(start, "404 Not Found", _HTML, pages.contents_html().encode())


def _send(start: StartResponse, status: str, kind: str, body: bytes) -> Iterable[bytes]:
    length = ("Content-Length", str(len(body)))
    start(status, [("Content-Type", kind), length, *_HEADERS])
    return [body]


class _Server(ThreadingMixIn, WSGIServer):
    """Answers each reader by a thread: browsers open connections on which they ask nothing."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a reader who went away."""


class _Handler(WSGIRequestHandler):
    timeout = READER_S

    def address_string(self) -> str:
        return str(self.client_address[0])

    def log_message(self, *_: Any) -> None:
        """Say nothing of what is read."""
