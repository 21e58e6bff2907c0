"""A gateway that speaks TLS: by which certificate, with whom, and who is kept waiting."""

import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
import uvicorn
from cryptography.hazmat.primitives import serialization
from structlog.testing import capture_logs

from tests.certificates import AUTHORITY, STRANGER, authority_file, write_pair
from workers.client.errors import GatewayError
from workers.client.http_transport import CA_FILE, trusted_authorities
from workers.client.typed.gateway import GatewayClient
from workers.environment.listening import listen
from workers.environment.tls_identity import TlsIdentity, TlsUnusable
from workers.gateway.server import GatewayServer, server_config

pytestmark = pytest.mark.anyio
WAIT_S = 20.0


async def app(scope: Any, _receive: Any, send: Any) -> None:
    """Answers with the scheme and the address of who asks."""
    body = f'{{"scheme":"{scope["scheme"]}","client":"{scope["client"][0]}"}}'.encode()
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def serving(
    tls: TlsIdentity | None, trusted_proxies: str | None = None
) -> AsyncIterator[tuple[uvicorn.Server, int]]:
    config = server_config(app, tls, trusted_proxies)  # type: ignore[arg-type]
    server = GatewayServer(config, anyio.lowlevel.checkpoint)
    with listen("127.0.0.1", 0) as listening:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listening])
            while not server.started:
                await anyio.sleep(0.01)
            yield server, listening.getsockname()[1]
            server.end()


def client_of(port: int) -> GatewayClient:
    return GatewayClient(f"https://127.0.0.1:{port}")


@pytest.fixture
def identity(tmp_path: Path) -> TlsIdentity:
    return TlsIdentity(*write_pair(tmp_path))


@pytest.fixture
def trusting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CA_FILE, str(authority_file(tmp_path)))


def client_context(**limits: Any) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    AUTHORITY.configure_trust(context)
    for name, value in limits.items():
        setattr(context, name, value)
    return context


def serial_at(port: int) -> str:
    with (
        socket.create_connection(("127.0.0.1", port), WAIT_S) as plain,
        client_context().wrap_socket(plain, server_hostname="127.0.0.1") as encrypted,
    ):
        return str((encrypted.getpeercert() or {})["serialNumber"])


async def test_a_client_that_trusts_its_authority_is_answered_over_tls(
    identity: TlsIdentity, trusting: None
):
    async with serving(identity) as (_, port), client_of(port) as client:
        assert (await client.get("/"))["scheme"] == "https"
        assert (await client.get("/"))["scheme"] == "https"


async def test_a_client_refuses_a_certificate_that_nobody_vouches_for_and_says_what_helps(
    tmp_path: Path, trusting: None
):
    strange = TlsIdentity(*write_pair(tmp_path, STRANGER))
    async with serving(strange) as (_, port), client_of(port) as client:
        with pytest.raises(GatewayError, match=CA_FILE) as refused:
            await client.get("/")
    assert refused.value.code == "gateway_untrusted"


async def test_a_name_that_is_not_in_the_certificate_is_refused(tmp_path: Path, trusting: None):
    elsewhere = TlsIdentity(*write_pair(tmp_path, names=("gateway.example",)))
    async with (
        serving(elsewhere) as (_, port),
        GatewayClient(f"https://127.0.0.1:{port}") as client,
    ):
        with pytest.raises(GatewayError, match="mismatch") as refused:
            await client.get("/")
    assert refused.value.code == "gateway_untrusted"


def test_a_file_of_authorities_that_holds_none_is_said(tmp_path: Path):
    empty = tmp_path / "empty.pem"
    empty.touch()
    with pytest.raises(GatewayError) as refused:
        trusted_authorities({CA_FILE: str(empty)})
    assert refused.value.code == "ca_file_unusable"


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")  # it is what is refused
def test_tls_before_1_2_is_refused_by_the_server(identity: TlsIdentity):
    old = client_context(
        minimum_version=ssl.TLSVersion.TLSv1, maximum_version=ssl.TLSVersion.TLSv1_1
    )
    old.set_ciphers("ALL:@SECLEVEL=0")
    hello, answer = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        old.wrap_bio(answer, hello, server_hostname="127.0.0.1").do_handshake()
    with pytest.raises(ssl.SSLError, match="UNSUPPORTED_PROTOCOL"):
        identity.context().wrap_bio(hello, answer, server_side=True).do_handshake()


async def test_a_renewed_certificate_is_shown_to_the_next_connection(
    tmp_path: Path, identity: TlsIdentity
):
    async with serving(identity) as (_, port):
        before = await anyio.to_thread.run_sync(serial_at, port)
        assert await anyio.to_thread.run_sync(serial_at, port) == before
        assert not identity.read_again()
        write_pair(tmp_path)
        assert identity.read_again()
        assert await anyio.to_thread.run_sync(serial_at, port) != before


async def test_half_a_renewal_leaves_the_pair_before_until_the_other_half_comes(
    tmp_path: Path, identity: TlsIdentity
):
    renewed = tmp_path / "renewed"
    renewed.mkdir()
    cert, key = write_pair(renewed)
    async with serving(identity) as (_, port):
        before = await anyio.to_thread.run_sync(serial_at, port)
        cert.replace(tmp_path / cert.name)
        with capture_logs() as logs:
            assert not identity.read_again()
            assert not identity.read_again()
        assert [entry["event"] for entry in logs] == ["tls_not_renewed"], "it is said once"
        assert await anyio.to_thread.run_sync(serial_at, port) == before
        key.replace(tmp_path / key.name)
        assert identity.read_again()
        assert await anyio.to_thread.run_sync(serial_at, port) != before


def test_a_pair_that_could_not_be_read_for_a_moment_is_read_later(
    tmp_path: Path, identity: TlsIdentity, monkeypatch: pytest.MonkeyPatch
):
    write_pair(tmp_path)

    def fail(*_: object, **__: object) -> None:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(ssl.SSLContext, "load_cert_chain", fail)
        assert not identity.read_again()
    assert identity.read_again()
    assert not identity.read_again()


async def test_what_a_gateway_follows_is_renewed_by_itself(
    tmp_path: Path, identity: TlsIdentity, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("workers.environment.tls_identity.FOLLOW_EVERY_S", 0.01)
    with capture_logs() as logs:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(identity.follow)
            write_pair(tmp_path)
            with anyio.fail_after(WAIT_S):
                while not any(entry["event"] == "tls_renewed" for entry in logs):
                    await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": True})])  # as it is served
async def test_connections_that_shake_no_hands_count_among_those_that_may_be(
    identity: TlsIdentity, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("workers.gateway.server.connections_max", lambda: 2)
    async with serving(identity) as (_, port):
        silent = [socket.create_connection(("127.0.0.1", port), WAIT_S) for _ in range(2)]
        assert not await anyio.to_thread.run_sync(is_answered, port)
        for each in silent:
            each.close()
        with anyio.fail_after(WAIT_S):
            while not await anyio.to_thread.run_sync(is_answered, port):
                await anyio.sleep(0.01)


def is_answered(port: int) -> bool:
    with (
        socket.create_connection(("127.0.0.1", port), WAIT_S) as plain,
        client_context().wrap_socket(plain, server_hostname="127.0.0.1") as encrypted,
    ):
        try:
            encrypted.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            return bool(encrypted.recv(1))
        except OSError:
            return False


async def test_who_speaks_in_the_clear_is_not_answered_and_nobody_else_is_held_up(
    identity: TlsIdentity,
):
    def speak(port: int) -> bytes:
        with socket.create_connection(("127.0.0.1", port), WAIT_S) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 100)
            try:
                return plain.recv(1 << 16)
            except ConnectionResetError:
                return b""

    async with serving(identity) as (_, port):
        assert b"HTTP/1.1" not in await anyio.to_thread.run_sync(speak, port)
        assert await anyio.to_thread.run_sync(serial_at, port)


@pytest.mark.parametrize("problem", ["missing", "readable by all", "of another", "encrypted"])
def test_a_gateway_does_not_start_with_a_pair_that_is_none(tmp_path: Path, problem: str):
    cert, key = write_pair(tmp_path)
    match problem:
        case "missing":
            key.unlink()
        case "readable by all":
            key.chmod(0o644)
        case "of another":
            other = tmp_path / "other"
            other.mkdir()
            _, key = write_pair(other)
        case _:
            key.write_bytes(encrypted(key.read_bytes()))
    with pytest.raises(TlsUnusable) as refused:
        TlsIdentity(cert, key)
    assert "PRIVATE" not in str(refused.value)


@pytest.mark.parametrize(
    ("proxies", "client"),
    [(None, "127.0.0.1"), ("10.0.0.0/8", "127.0.0.1"), ("127.0.0.0/8", "203.0.113.7")],
)
async def test_a_trusted_proxy_says_who_asks_and_nobody_else_does(proxies: str | None, client: str):
    claims = {"X-Forwarded-For": "198.51.100.1, 203.0.113.7", "X-Forwarded-Proto": "https"}
    async with serving(None, proxies) as (_, port), GatewayClient(f"http://127.0.0.1:{port}") as to:
        answer = await to.ask_document("GET", "/", headers=claims)
    assert answer["client"] == client


def encrypted(key: bytes) -> bytes:
    private = serialization.load_pem_private_key(key, None)
    return private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"made up here"),
    )
