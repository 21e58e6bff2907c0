"""The archive in a bucket: what a server keeps, and what is said of servers that lie."""

import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import get_context
from types import SimpleNamespace

import boto3
import obstore
import pytest
from moto.server import ThreadedMotoServer

from kernel.audit.proofs import thought
from kernel.ledger import schema
from kernel.ledger.archive import Archive, ArchiveUnavailable
from kernel.ledger.archive_segment import SEGMENT_ROWS
from kernel.ledger.ledger import Ledger, LedgerView
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.memory import MemoryStore
from kernel.ledger.store.tables import TableQuery
from kernel.records.legal_holds import Grounds
from kernel.retention.archival import Retention
from kernel.retention.erasure import ErasablePayload, erase
from kernel.verify import verify
from kernel.verify.archive import verify_archive
from queues.redis.watch import LedgerMark
from tests.kernel.archives import archive_next, collect_next
from tests.kernel.build import FakeHost, create, findings, submit
from tests.kernel.deciding import deciding
from tests.kernel.honest import think
from tests.system.archiving_process import POINTS, archive_and_die
from tests.system.killed_at_steps import opened
from workers.environment import archive_s3
from workers.environment.archive_files import FolderFiles, archive_at
from workers.environment.archive_s3 import S3Files
from workers.environment.child_environment import child_environment
from workers.environment.folder_owner import (
    ARCHIVE_OWNER,
    FolderOfAnotherLedgerError,
    claim_folders,
)
from workers.environment.ledger_access import read_record
from workers.environment.settings import Settings
from workers.use_cases.backup.backup import make_backup
from workers.use_cases.backup.cipher import NoCipher
from workers.use_cases.backup.errors import BackupUnavailable
from workers.use_cases.backup.place import BackupPlace
from workers.use_cases.backup.restore import backup_named, check_backup, restore_backup
from workers.use_cases.log_archiving import archive_steps

pytestmark = [
    pytest.mark.spec("§17.7"),
    # moto asks boto for what it deprecates.
    pytest.mark.filterwarnings("ignore::DeprecationWarning:(botocore|moto|werkzeug)"),
]
URL = "s3://rolls/of/one"
NAME, CONTENT = sha256(b"x").hexdigest(), b"x"
OTHER = sha256(b"y").hexdigest()
ANSWER_S = 0.5
THOUGHTS = ("audit-1:t-1", "audit-1:t-5", "audit-2:t-2")
GROUNDS = Grounds("asked for by the person", "privacy office")


def aws(monkeypatch, endpoint):
    """Say in AWS's own variables where the store is."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "of-the-tests",
        "AWS_SECRET_ACCESS_KEY": "known to all",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """An S3 server over loopback."""
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    yield f"http://{host}:{port}"
    moto.stop()


@pytest.fixture
def bucket(server, monkeypatch):
    """An empty bucket there."""
    aws(monkeypatch, server)
    client = boto3.client("s3", endpoint_url=server, region_name="us-east-1")
    client.create_bucket(Bucket="rolls")
    yield client
    for entry in client.list_objects_v2(Bucket="rolls").get("Contents", ()):
        client.delete_object(Bucket="rolls", Key=entry["Key"])


# --- the port: a folder and a bucket keep the same promises -------------------------------------


@pytest.fixture(params=["folder", "bucket"])
def files(request, tmp_path):
    if request.param == "folder":
        return FolderFiles(tmp_path / "archive")
    request.getfixturevalue("bucket")
    return S3Files(URL)


def test_what_is_put_is_there_until_it_is_deleted(files):
    assert files.get(NAME) is None
    assert list(files.names()) == []
    large = bytes(range(256)) * 40_000
    for content in (CONTENT, large, large):
        files.put(NAME, content)
        assert files.get(NAME) == content
    files.put(OTHER, b"")
    assert files.get(OTHER) == b""
    assert sorted(files.names()) == sorted([NAME, OTHER])
    for _ in range(2):
        files.delete(NAME)
        assert files.get(NAME) is None
    assert list(files.names()) == [OTHER]


def test_an_object_lies_where_a_file_would_and_what_else_is_there_is_passed_over(bucket):
    files = S3Files(URL)
    files.put(NAME, CONTENT)
    for key in (
        "of/one/README",
        "of/one/ab/short.jsonl.gz",
        f"of/two/{OTHER[:2]}/{OTHER}.jsonl.gz",
    ):
        bucket.put_object(Bucket="rolls", Key=key, Body=b"?")
    keys = {entry["Key"] for entry in bucket.list_objects_v2(Bucket="rolls")["Contents"]}
    assert f"of/one/{NAME[:2]}/{NAME}.jsonl.gz" in keys
    assert list(files.names()) == [NAME]


# --- a ledger whose archive is a bucket --------------------------------------------------------


def ledger_with(files, store=None, rows=SEGMENT_ROWS + 1):
    host = FakeHost()
    ledger = Ledger.create(store or MemoryStore(), host.host, Archive(files))
    for number in range(rows):
        submit(ledger, create(f"n-{number}", "Note"))
    return ledger, host


def test_rows_that_lie_in_a_bucket_verify_and_what_is_changed_there_is_named(bucket):
    ledger, host = ledger_with(S3Files(URL))
    assert archive_next(ledger)
    assert collect_next(ledger, host) == SEGMENT_ROWS
    ledger.archive = archive_at(URL)
    assert findings(ledger) == ()
    [key] = [entry["Key"] for entry in bucket.list_objects_v2(Bucket="rolls")["Contents"]]
    kept = bucket.get_object(Bucket="rolls", Key=key)["Body"].read()
    for body, rule in ((kept[:-9], "segment_damaged"), (b"", "segment_damaged")):
        bucket.put_object(Bucket="rolls", Key=key, Body=body)
        ledger.archive = archive_at(URL)
        assert [finding.rule for finding in findings(ledger)] == [rule]
    bucket.delete_object(Bucket="rolls", Key=key)
    assert [finding.rule for finding in findings(ledger)] == ["segment_missing"]


@pytest.mark.spec("002 Retention tiers")
def test_cold_thoughts_lie_in_a_bucket_are_proved_from_there_and_missed_by_name(
    bucket, monkeypatch
):
    ledger = Ledger.create(MemoryStore(), FakeHost().host, archive_at(URL))
    think(ledger)
    with ledger.view() as view:
        subjects = [thought(view, entry, with_content=True) for entry in THOUGHTS]
    steps = archive_steps(ledger, Retention(rounds_kept=0, rounds_warm=0))
    assert sum(step.thoughts_moved for step in steps) == 7
    names = list(S3Files(URL).names())
    ledger.archive = archive_at(URL)
    with ledger.view() as view:
        assert [thought(view, entry, with_content=True) for entry in THOUGHTS] == subjects
        assert (verify(view).findings, verify(view).thoughts_archived) == ((), 7)
        assert verify_archive(view, lambda _: None).findings == ()
    with ledger.transaction() as transaction:
        payload = ErasablePayload("thought", "t-1", "audit-2")
        erased = erase(transaction, payload, GROUNDS, deciding(transaction))
    ledger.archive.erase_content(erased.commitment)
    left = set(S3Files(URL).names())
    assert left < set(names)
    assert findings(ledger) == ()
    for name in left:
        S3Files(URL).delete(name)
    ledger.archive = archive_at(URL)
    assert {finding.rule for finding in findings(ledger)} == {"segment_missing"}
    aws(monkeypatch, "http://127.0.0.1:1")
    ledger.archive = Archive(S3Files(URL, ANSWER_S))
    with ledger.view() as view, pytest.raises(ArchiveUnavailable) as caught:
        thought(view, THOUGHTS[0], with_content=False)
    assert caught.value.code == "archive_unavailable"


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A ledger of old rows, what its log holds, and a time that all of it is older than."""
    path = tmp_path_factory.mktemp("begun") / "begun.db"
    ledger = opened(path)
    for number in range(SEGMENT_ROWS + 1):
        submit(ledger, create(f"n-{number}", "Note"))
    with ledger.view() as view:
        before_us, said = view.head().committed_at_us + 1, whole_log(view)
    ledger.close()
    return path, before_us, said


@pytest.mark.parametrize("point", POINTS)
def test_who_is_killed_between_the_bucket_and_the_database_loses_nothing(
    bucket, begun, tmp_path, point
):
    path, before_us, said = begun
    path = shutil.copy(path, tmp_path / "killed.db")
    killed = get_context("spawn").Process(
        target=archive_and_die, args=(path, URL, before_us, point)
    )
    killed.start()
    killed.join(60)
    assert killed.exitcode == -signal.SIGKILL
    assert len(list(S3Files(URL).names())) == 1
    ledger = opened(path, 2)
    ledger.archive = archive_at(URL)
    moved = SEGMENT_ROWS if point == "committed" else 0
    for rows in (moved, SEGMENT_ROWS):
        with ledger.view() as view:
            assert view.tables.count(TableQuery(schema.archived_rows)) == rows
            assert whole_log(view) == said
            assert verify(view).ok
        steps = archive_steps(ledger, Retention(before_us, hot_rows_min=0))
        assert sum(step.rows_moved for step in steps) == SEGMENT_ROWS - rows
    assert len(list(S3Files(URL).names())) == 1
    ledger.close()


def whole_log(view):
    return [(row["operation_id"], bytes(row["row_bytes"])) for row in view.log_rows(limit=999)]


# --- stores that are away, slow, or lie ---------------------------------------------------------


class Hostile(BaseHTTPRequestHandler):
    """Takes what is put and gives back what its server says."""

    answer = staticmethod(lambda _: None)

    def do_PUT(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.reply(200, b"", 0)

    def do_GET(self):
        self.answer(self)

    def reply(self, status, body, length=None, **headers):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.send_header("ETag", '"x"')
        self.send_header("Last-Modified", "Wed, 21 Oct 2015 07:28:00 GMT")
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def _stalls(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.send_header("ETag", '"x"')
    handler.send_header("Last-Modified", "Wed, 21 Oct 2015 07:28:00 GMT")
    handler.end_headers()
    handler.wfile.write(b"x")
    handler.server.over.wait(30)


def _never_ends(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", str(1 << 40))
    handler.send_header("ETag", '"x"')
    handler.send_header("Last-Modified", "Wed, 21 Oct 2015 07:28:00 GMT")
    handler.end_headers()
    try:
        while not handler.server.over.is_set():
            handler.wfile.write(bytes(1 << 16))
    except OSError:
        pass


def replies(*answer, **headers):
    return lambda handler: handler.reply(*answer, **headers)


HOSTILE = {
    "other bytes": (replies(200, b"?" * 99), "archive_segment_damaged"),
    "nothing": (replies(200, b""), "archive_segment_damaged"),
    "cut": (replies(200, b"?" * 9, length=99), "archive_unavailable"),
    "no such object": (replies(404, b"<Code>NoSuchKey</Code>"), "archive_segment_missing"),
    "no such bucket": (replies(404, b"<Code>NoSuchBucket</Code>"), "archive_unavailable"),
    "forbidden": (replies(403, b"\x1b[31mno" * 9999), "archive_unavailable"),
    "failing": (replies(500, b"no"), "archive_unavailable"),
    "leading in a circle": (replies(302, b"", Location="/again"), "archive_unavailable"),
    "no answer": (lambda handler: handler.connection.close(), "archive_unavailable"),
    "stalling": (_stalls, "archive_unavailable"),
    "without end": (_never_ends, "archive_segment_damaged"),
}


@pytest.fixture(scope="module")
def hostile() -> Iterator[SimpleNamespace]:
    """A server over loopback that answers as its `answer` says."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hostile)
    server.over = threading.Event()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield SimpleNamespace(url=f"http://127.0.0.1:{server.server_port}", server=server)
    server.over.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def small():
    return ledger_with(None)


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_store_that_lies_or_is_slow_is_a_typed_refusal_and_changes_nothing(
    kind, hostile, small, monkeypatch
):
    aws(monkeypatch, hostile.url)
    monkeypatch.setattr(archive_s3, "RAW_BYTES_MAX", 1 << 21)
    answer, code = HOSTILE[kind]
    monkeypatch.setattr(Hostile, "answer", staticmethod(answer))
    ledger, _ = small
    ledger.archive = Archive(S3Files(URL, ANSWER_S))
    with pytest.raises(ArchiveUnavailable) as caught:
        archive_next(ledger)
    assert caught.value.code == code
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1000
    with ledger.view() as view:
        assert view.tables.count(TableQuery(schema.kernel_event_log)) == SEGMENT_ROWS + 1
        assert view.tables.count(TableQuery(schema.archive_segments)) == 0


def test_a_store_that_is_away_is_a_typed_refusal(monkeypatch, hostile, small):
    aws(monkeypatch, "http://127.0.0.1:1")
    files = S3Files(URL, ANSWER_S)
    for ask in (
        lambda: files.get(NAME),
        lambda: files.put(NAME, CONTENT),
        lambda: files.delete(NAME),
        lambda: list(files.names()),
    ):
        with pytest.raises(ArchiveUnavailable) as caught:
            ask()
        assert caught.value.code == "archive_unavailable"
        assert "known to all" not in str(caught.value)


def test_a_bucket_that_is_not_there_takes_nothing(server, monkeypatch):
    aws(monkeypatch, server)
    files = S3Files("s3://nobodys")
    for ask in (lambda: files.get(NAME), lambda: files.put(NAME, CONTENT)):
        with pytest.raises(ArchiveUnavailable, match="no such bucket"):
            ask()


# --- configuration -----------------------------------------------------------------------------


def test_without_its_library_the_archive_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(ArchiveUnavailable, match=r"rotulus\[s3\]") as caught:
        archive_at(URL)
    assert caught.value.code == "archive_not_configured"


def test_a_configuration_that_is_none_is_named(monkeypatch):
    aws(monkeypatch, "nowhere")
    with pytest.raises(ArchiveUnavailable, match="InvalidUri") as caught:
        archive_at(URL).read(NAME)
    assert caught.value.code == "archive_unavailable"


@pytest.mark.parametrize(("url", "reaches"), [(URL, True), ("file:///x", False), (None, False)])
def test_credentials_reach_the_processes_that_have_a_bucket(monkeypatch, tmp_path, url, reaches):
    aws(monkeypatch, "http://127.0.0.1:1")
    settings = Settings(data_dir=tmp_path, archive_url=url)
    for kind in ("gateway", "worker"):
        assert ("AWS_SECRET_ACCESS_KEY" in child_environment(kind, settings)) == reaches


# --- whose it is --------------------------------------------------------------------------------

A, B = LedgerMark("a" * 32, "/data/a on host-1"), LedgerMark("b" * 32, "/data/b on host-2")


def test_a_bucket_is_its_first_ledgers_and_a_second_one_is_refused_with_both_names(
    bucket, tmp_path
):
    settings = Settings(data_dir=tmp_path, archive_url=URL)
    claim_folders(settings, A)
    claim_folders(settings, LedgerMark(A.id, "/moved/elsewhere on host-3"))
    with pytest.raises(FolderOfAnotherLedgerError) as refused:
        claim_folders(settings, B)
    said = str(refused.value)
    assert all(part in said for mark in (A, B) for part in (mark.id[:12], mark.name))
    assert f"delete {URL}/{ARCHIVE_OWNER}" in said
    assert list(S3Files(URL).names()) == [], "a mark is no segment"
    claim_folders(Settings(data_dir=tmp_path, archive_url="s3://rolls/of/another"), B)
    bucket.delete_object(Bucket="rolls", Key=f"of/one/{ARCHIVE_OWNER}")
    claim_folders(settings, B)


def test_of_two_that_claim_a_bucket_at_once_one_has_it(bucket, monkeypatch):
    put = obstore.put

    def overtaken(store, path, content, **options):
        monkeypatch.setattr(obstore, "put", put)
        put(store, path, b"first")
        return put(store, path, content, **options)

    monkeypatch.setattr(obstore, "put", overtaken)
    assert S3Files(URL).claim("mark", b"second") == b"first"


def test_a_bucket_that_is_not_there_is_left_to_who_uses_it(bucket, tmp_path):
    claim_folders(Settings(data_dir=tmp_path, archive_url="s3://no-such-bucket/x"), A)


def test_a_backup_lies_in_a_bucket_as_in_a_folder(bucket, tmp_path):
    data, restored = tmp_path / "data", tmp_path / "restored"
    data.mkdir(0o700)
    with closing(Ledger.create(SqliteStore(data / "ledger.db"), FakeHost().host)) as ledger:
        submit(ledger, create("n-1", "Note"))
    place = BackupPlace(f"{URL}/backups", NoCipher())
    assert place.newest() is None
    report = make_backup(Settings(data_dir=data), place, print)
    assert make_backup(Settings(data_dir=data), place, print, keep=1).pieces_stored == 0
    assert report.name not in place.manifest_names()
    _, manifest = backup_named(place, None)
    restore_backup(Settings(data_dir=restored), place, manifest, print)
    assert read_record(restored / "ledger.db", LedgerView.head).row_hash == manifest.head.row_hash
    [object_of_piece, *_] = [
        each["Key"]
        for each in bucket.list_objects_v2(Bucket="rolls")["Contents"]
        if each["Key"].endswith(".piece")
    ]
    bucket.delete_object(Bucket="rolls", Key=object_of_piece)
    [problem] = check_backup(place, manifest, print)
    assert "missing" in problem
    with pytest.raises(BackupUnavailable, match="there is no such bucket"):
        BackupPlace("s3://not-there", NoCipher()).newest()
