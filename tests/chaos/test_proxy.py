"""A proxy passes on what it is given, late if told so, and cuts what it is told to cut."""

import socket
import threading
import time
from contextlib import suppress

import pytest

from tests.chaos.proxy import Proxies


@pytest.fixture
def echo():
    """A server that answers everything with itself."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer(connection):
            with connection, suppress(OSError):
                while data := connection.recv(1024):
                    connection.sendall(data)

        def accept():
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                threading.Thread(target=answer, args=[connection], daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


def asked(connection, data=b"ping"):
    connection.sendall(data)
    return connection.recv(1024)


def test_what_goes_in_comes_out_late_by_the_delay(echo):
    with Proxies() as proxies:
        proxy = proxies.to_port(echo)
        with socket.create_connection(("127.0.0.1", proxy.port)) as connection:
            assert asked(connection) == b"ping"
            proxy.delay_s = 0.05
            before_s = time.monotonic()
            assert asked(connection) == b"ping"
            assert time.monotonic() - before_s >= 2 * 0.05


def test_a_cut_ends_what_is_open_and_lets_nobody_in_until_it_is_mended(echo):
    with Proxies() as proxies:
        proxy = proxies.to_port(echo)
        with socket.create_connection(("127.0.0.1", proxy.port)) as connection:
            assert asked(connection) == b"ping"
            proxies.run(proxy.cut())
            with pytest.raises(ConnectionResetError):
                connection.recv(1024)
        with suppress(OSError), socket.create_connection(("127.0.0.1", proxy.port)) as late:
            assert asked(late) == b""
        proxies.run(proxy.mend())
        with socket.create_connection(("127.0.0.1", proxy.port)) as connection:
            assert asked(connection) == b"ping"


def test_a_lost_connection_stays_silent_as_does_what_connects_meanwhile(echo):
    with Proxies() as proxies:
        proxy = proxies.to_port(echo)
        with socket.create_connection(("127.0.0.1", proxy.port)) as before:
            assert asked(before) == b"ping"
            proxy.is_silent = True
            proxy.lose()
            with socket.create_connection(("127.0.0.1", proxy.port)) as meanwhile:
                meanwhile.settimeout(0.2)
                with pytest.raises(TimeoutError):
                    asked(meanwhile)
                proxy.is_silent = False
                with socket.create_connection(("127.0.0.1", proxy.port)) as after:
                    assert asked(after) == b"ping"
                for lost in (before, meanwhile):
                    lost.settimeout(0.2)
                    with pytest.raises(TimeoutError):
                        asked(lost)


@pytest.mark.parametrize(("cuts", "arrives"), [("before", False), ("after", True)])
def test_one_commit_ends_its_connection_before_or_after_it_is_passed_on(cuts, arrives):
    commit = b"Q\x00\x00\x00\x0bCOMMIT\x00"
    arrived = []
    with socket.create_server(("127.0.0.1", 0)) as listening, Proxies() as proxies:
        proxy = proxies.to_port(listening.getsockname()[1])
        proxy.cuts_commit = cuts
        with socket.create_connection(("127.0.0.1", proxy.port)) as connection:
            far, _ = listening.accept()
            with far:
                connection.sendall(b"SELECT 1")
                assert far.recv(1024) == b"SELECT 1"
                connection.sendall(commit)
                with suppress(ConnectionResetError):
                    while data := far.recv(1024):
                        arrived.append(data)
            with pytest.raises(ConnectionResetError):
                connection.recv(1024)
        with socket.create_connection(("127.0.0.1", proxy.port)) as connection:
            far, _ = listening.accept()
            with far:
                connection.sendall(commit)
                assert far.recv(1024) == commit
    assert arrived == ([commit] if arrives else [])
