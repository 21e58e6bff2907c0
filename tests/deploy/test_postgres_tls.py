"""A PostgreSQL that speaks TLS alone: the URL of a ledger says whom to believe."""

import os
import shutil
import subprocess
import tempfile
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

psycopg = pytest.importorskip("psycopg", reason="no PostgreSQL: the driver is not installed")

from kernel.ledger.postgres.store import PostgresStore  # noqa: E402 - after the driver
from kernel.values.errors import LedgerUnavailable  # noqa: E402 - likewise
from tests.contract.nodes import add, names  # noqa: E402 - likewise
from tests.deploy.patroni import postgres_programs  # noqa: E402 - likewise
from tests.ports import free_port  # noqa: E402 - likewise
from tests.postgres import OWNER, OwnPostgres  # noqa: E402 - likewise

MISSING = [] if postgres_programs() else ["postgresql"]
MISSING += [] if shutil.which("openssl") else ["openssl"]
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"not here: {', '.join(MISSING)}"),
]


def write_certificate(folder: Path, name: str) -> Path:
    """Write a certificate for a name that signs itself, and its key beside it."""
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    named = ("-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}")
    made = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2")
    files = ("-keyout", str(key), "-out", str(certificate))
    subprocess.run([*made, *named, *files], check=True, capture_output=True)
    key.chmod(0o600)
    return certificate


@pytest.fixture(scope="module")
def folder():
    folder = Path(tempfile.mkdtemp(prefix="rotulus-tls-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def authority(folder):
    return write_certificate(folder, "localhost")


@pytest.fixture(scope="module")
def url(folder, authority):
    programs = postgres_programs()
    assert programs is not None
    data = folder / "server"
    data.mkdir()
    folder.chmod(0o755)
    server = OwnPostgres(programs, data, free_port())
    for file, name in ((authority, "server.crt"), (authority.with_suffix(".key"), "server.key")):
        shutil.copy(file, server.data / name)
        if os.geteuid() == 0:
            shutil.chown(server.data / name, OWNER)
    with (server.data / "postgresql.conf").open("a") as settings:
        settings.write("ssl = on\n")
    server.start()
    try:
        url = server.new_database()
        (server.data / "pg_hba.conf").write_text("hostssl all all all trust\nlocal all all trust\n")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SELECT pg_reload_conf()")
        yield url
    finally:
        server.stop()


def asking(url, host, **parameters):
    parts = urlsplit(url)
    query = "&".join(f"{name}={value}" for name, value in parameters.items())
    return f"postgresql://rotulus@{host}:{parts.port}{parts.path}?{query}"


def test_a_store_works_where_the_certificate_is_that_of_the_name(url, authority):
    verified = {"sslmode": "verify-full", "sslrootcert": authority}
    with closing(PostgresStore(asking(url, "localhost", **verified))) as store:
        add(store, "n")
        assert names(store) == ["n"]


def test_whom_the_url_does_not_believe_is_refused_before_anything_is_said(url, authority, folder):
    stranger = write_certificate(folder, "stranger.example")
    refused = {
        "another authority": asking(url, "localhost", sslmode="verify-full", sslrootcert=stranger),
        "another name": asking(url, "127.0.0.1", sslmode="verify-full", sslrootcert=authority),
        "no encryption": asking(url, "localhost", sslmode="disable"),
    }
    for case, place in refused.items():
        with pytest.raises(LedgerUnavailable) as error:
            PostgresStore(place)
        words = str(error.value)
        assert "certificate" in words or "no encryption" in words, (case, words)
