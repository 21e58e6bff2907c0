"""A ledger in a PostgreSQL that is spoken to over TLS, by a URL alone."""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import pytest

from kernel.ledger.ledger import LedgerView
from kernel.values.errors import LedgerUnavailable
from tests.certificates import authority_file, write_pair
from tests.ports import free_port
from tests.postgres import OwnPostgres
from workers.environment.ledger_access import ledger_place, open_or_create_ledger
from workers.environment.settings import load_settings
from workers.environment.system_host import system_host

pytestmark = pytest.mark.nightly
DEBIANS = "/usr/lib/postgresql/15/bin"


@pytest.fixture
def place() -> Iterator[str]:
    folder = Path(tempfile.mkdtemp(prefix="rotulus-pg-tls-"))
    # The wheel's server speaks no TLS.
    initdb = shutil.which("initdb", path=f"{os.environ['PATH']}:{DEBIANS}")
    if initdb is None:
        pytest.skip("no initdb on the path: the wheel's server speaks no TLS")
    server = OwnPostgres(Path(initdb).resolve().parent, folder, free_port())
    owner = server.data.stat()
    for path in write_pair(server.data):
        os.chown(path, owner.st_uid, owner.st_gid)
    with (server.data / "postgresql.conf").open("a") as file:
        file.write("ssl=on\nssl_cert_file='cert.pem'\nssl_key_file='key.pem'\n")
    hba = server.data / "pg_hba.conf"
    hba.write_text("local all all trust\nhostssl all all 127.0.0.1/32 trust\n")
    # It is asked over the loopback until it answers.
    server.url += "?sslmode=require"
    server.start()
    yield server.new_database()
    server.stop(signal.SIGINT)
    shutil.rmtree(folder)


def with_query(url: str, query: str) -> str:
    return urlunsplit(urlsplit(url)._replace(query=query))


def test_a_ledger_is_reached_over_tls_by_who_checks_the_certificate_and_not_in_the_clear(
    place: str, tmp_path: Path
):
    trusting = f"sslmode=verify-full&sslrootcert={quote(str(authority_file(tmp_path)))}"
    settings = load_settings(database_url=with_query(place, trusting))
    ledger = open_or_create_ledger(ledger_place(settings), system_host())
    assert ledger.read(LedgerView.head).ec_sequence_number >= 0
    ledger.close()
    for query in ("sslmode=disable", "sslmode=verify-full&sslrootcert=/nowhere"):
        refused = load_settings(database_url=with_query(place, query))
        with pytest.raises(LedgerUnavailable):
            open_or_create_ledger(ledger_place(refused), system_host())
