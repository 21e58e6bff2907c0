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


def reply_to(connection, data=b"ping"):
    connection.sendall(data)
    return connection.recv(1024)


def test_what_goes_in_comes_out_late_by_the_delay(echo):
    with Proxies() as proxies:
        proxy = proxies.to_port(echo)
        with socket.create_connection(("127.0.0.1", proxy.port)) as connection:
            assert reply_to(connection) == b"ping"
            proxy.delay_s = 0.05
            before_s = time.monotonic()
            assert reply_to(connection) == b"ping"
            assert time.monotonic() - before_s >= 2 * 0.05


def test_a_cut_ends_what_is_open_and_lets_nobody_in_until_it_is_mended(echo):
    with Proxies() as proxies:
        proxy = proxies.to_port(echo)
        with socket.create_connection(("127.0.0.1", proxy.port)) as connection:
            assert reply_to(connection) == b"ping"
            proxies.run(proxy.cut())
            with pytest.raises(ConnectionResetError):
                connection.recv(1024)
        with suppress(OSError), socket.create_connection(("127.0.0.1", proxy.port)) as late:
            assert reply_to(late) == b""
        proxies.run(proxy.mend())
        with socket.create_connection(("127.0.0.1", proxy.port)) as connection:
            assert reply_to(connection) == b"ping"


def test_a_lost_connection_stays_silent_as_does_what_connects_meanwhile(echo):
    with Proxies() as proxies:
        proxy = proxies.to_port(echo)
        with socket.create_connection(("127.0.0.1", proxy.port)) as before:
            assert reply_to(before) == b"ping"
            proxy.is_silent = True
            proxy.lose()
            with socket.create_connection(("127.0.0.1", proxy.port)) as meanwhile:
                meanwhile.settimeout(0.2)
                with pytest.raises(TimeoutError):
                    reply_to(meanwhile)
                proxy.is_silent = False
                with socket.create_connection(("127.0.0.1", proxy.port)) as after:
                    assert reply_to(after) == b"ping"
                for lost in (before, meanwhile):
                    lost.settimeout(0.2)
                    with pytest.raises(TimeoutError):
                        reply_to(lost)


ASKED = b"Q\x00\x00\x00\x0bCOMMIT\x00"
PREPARED = b"P\x00\x00\x00\x10_pg3_7\x00COMMIT\x00\x00\x00"
ASKED_BY_NAME = b"B\x00\x00\x00\x13\x00_pg3_7\x00\x00\x00\x00\x00"
COMMITTED = b"C\x00\x00\x00\x0bCOMMIT\x00"


@pytest.mark.parametrize("asked_how", [ASKED, ASKED_BY_NAME])
@pytest.mark.parametrize("cuts", ["before", "after"])
def test_one_commit_ends_its_connection_before_or_after_it_is_carried_out(cuts, asked_how):
    with socket.create_server(("127.0.0.1", 0)) as listening, Proxies() as proxies:
        proxy = proxies.to_port(listening.getsockname()[1])

        def commit(near, far):
            """Return whether the server was asked to, and what the client heard of it."""
            near.sendall(asked_how)
            arrived = far.recv(1024) == asked_how
            if arrived:
                far.sendall(COMMITTED)
            return arrived, near.recv(1024)

        with socket.create_connection(("127.0.0.1", proxy.port)) as near:
            far, _ = listening.accept()
            with far:
                near.sendall(PREPARED)
                assert far.recv(1024) == PREPARED
                assert commit(near, far) == (True, COMMITTED)
                proxy.cuts_commit = cuts
                near.sendall(asked_how)
                arrived = b""
                with suppress(ConnectionResetError):
                    arrived = far.recv(1024)
                    far.sendall(COMMITTED)
                assert arrived == (asked_how if cuts == "after" else b"")
                with pytest.raises(ConnectionResetError):
                    near.recv(1024)
        with socket.create_connection(("127.0.0.1", proxy.port)) as near:
            far, _ = listening.accept()
            with far:
                near.sendall(PREPARED)
                assert far.recv(1024) == PREPARED
                assert commit(near, far) == (True, COMMITTED)
