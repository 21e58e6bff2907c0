"""The published log through the door: tiles that never change, and no path that leads elsewhere."""

from contextlib import asynccontextmanager

import httpx
import pytest
from anyio import to_thread

from kernel.proof.checkpoint import Checkpoint, SignedCheckpoint
from kernel.proof.key_handover import hand_over
from kernel.proof.merkle_tree import root_of
from kernel.proof.tiles import TILE_WIDTH, hashes_of, node_of_tiles, tile_path
from tests.kernel.build import FakeHost
from tests.signed_log import ORIGIN, SignedLog, log_key
from tests.workers.api.door import SESSION, error_of, running_door, source
from workers.dashboard.page_model import page
from workers.environment.checkpoint_folder import write_tiles
from workers.environment.checkpoint_key import create_key, verifiers_in
from workers.gateway.dashboard_source import LiveSource
from workers.publication.log_publication import LogPublisher
from workers.publication.log_publishing import LogPublishing

pytestmark = [pytest.mark.anyio, pytest.mark.spec("P5")]

FOREVER = "public, max-age=31536000, immutable"


@asynccontextmanager
async def published_door(folder):
    """A gateway with a key, which publishes to a folder."""
    key, public = folder / "log.key", folder / "public"
    create_key(key, "example.com/log")

    def publishing(ledger):
        publisher = LogPublisher(ledger.read, key, public)
        return LogPublishing(ledger, public, key_file=key, publisher=publisher, every_s=0)

    async with running_door(host=FakeHost().host, publishing=publishing) as door:
        await door.declare(SESSION, "a", "b")
        yield door, verifiers_in(key), public


@pytest.fixture
async def published(tmp_path, anyio_backend):
    async with published_door(tmp_path) as published:
        yield published


async def test_a_client_of_tlog_tiles_computes_the_signed_root(published):
    door, verifiers, _ = published
    await door.operate(*(source(f"s-{number}") for number in range(5)))
    assert await door.services.publishing.publish_due()
    answer = await door.http.get("/checkpoint")
    assert (answer.status_code, answer.headers["content-type"]) == (
        200,
        "text/plain; charset=utf-8",
    )
    assert answer.headers["cache-control"] == "no-cache"
    stated = SignedCheckpoint.of_bytes(answer.content).check_signed(verifiers[0])
    path = tile_path(0, 0, stated.size)
    tile = await door.http.get(f"/{path}")
    assert (tile.status_code, tile.headers["content-type"]) == (200, "application/octet-stream")
    assert tile.headers["cache-control"] == FOREVER
    hashes = hashes_of(tile.content)

    def node(level, index):
        return node_of_tiles(level, index, lambda _, __: hashes)

    assert root_of(stated.size, node) == stated.root


async def test_a_full_tile_answers_for_what_was_open(published):
    door, _, public = published

    class Tree:
        """A tree of which nothing but its tiles is asked."""

        def tile(self, level, index):
            return [bytes([level, index % 256]) * 16] * TILE_WIDTH

    await to_thread.run_sync(write_tiles, public, Tree(), 300 * TILE_WIDTH)
    for path in ("tile/0/299", "tile/1/000", "tile/1/001.p/44", "tile/0/007.p/9"):
        answer = await door.http.get(f"/{path}")
        width = int(path.partition(".p/")[2] or TILE_WIDTH)
        assert (answer.status_code, len(answer.content)) == (200, 32 * width), path
        assert answer.headers["cache-control"] == FOREVER


HOSTILE = (
    "/tile/0/300",
    "/tile/0/../../checkpoint",
    "/tile/../../log.key",
    "/tile/0/../../../log.key",
    "/tile/0/..\\..\\log.key",
    "/tile//etc/passwd",
    "/tile/0/000\x00",
    "/tile/0/000\n",
    "/tile/0/000.p/0",
    "/tile/0/000.p/256",
    "/tile/0/0",
    "/tile/00/000",
    "/tile/0/x000/000",
    "/tile/0/000/",
    "/tile/entries/000",
    "/tile/0/\u0660\u0660\u0660",
    "/tile/" + "9" * 3000,
    "/tile/0/" + "x001/" * 300 + "001",
)


async def asked(app, path):
    """Ask as a client does that sends a path as it stands, and return what was answered."""
    sent = []
    headers = [(b"host", b"127.0.0.1:8440")]
    scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode()}
    scope |= {"query_string": b"", "headers": headers, "http_version": "1.1", "root_path": ""}
    scope |= {"scheme": "http", "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8440)}

    async def receive():
        return {"type": "http.request"}

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    content = b"".join(message.get("body", b"") for message in sent)
    return httpx.Response(sent[0]["status"], headers=sent[0]["headers"], content=content)


async def test_a_path_that_names_no_tile_leads_nowhere(published):
    door = published[0]
    assert await door.services.publishing.publish_due()
    for path in HOSTILE:
        error_of(await asked(door.app, path), 404, "tile_not_published")
    assert (await asked(door.app, "/checkpoint")).status_code == 200


async def test_before_anything_is_published_nothing_is_answered(published, door):
    for gateway in (published[0], door):
        error_of(await gateway.http.get("/checkpoint"), 404, "checkpoint_not_published")
        error_of(await gateway.http.get("/tile/0/000"), 404, "tile_not_published")
    unpublished = {
        "problem": None,
        "checkpoint": None,
        "receipts_not_under_the_tree": 0,
        "run_groups_not_under_the_tree": 0,
    }
    answers = [
        (await gateway.http.get("/v1/checkpoint")).json() for gateway in (published[0], door)
    ]
    policy = published[0].services.publishing.policy().to_bytes().decode()
    assert policy.startswith("log ")
    stated = ({"publishes": True, "policy": policy}, {"publishes": False, "policy": None})
    assert answers == [unpublished | each for each in stated]


async def test_the_verdict_is_the_same_at_each_door(published):
    door, _, public = published
    await door.services.publishing.publish_due()
    answer = (await door.http.get("/v1/checkpoint")).json()
    checkpoint = answer["checkpoint"]
    assert (answer["publishes"], answer["problem"]) == (True, None)
    assert checkpoint["message"] == "consistent but unwitnessed (0 of 0)"
    shown = page(await LiveSource(door.services, 4).read())
    assert shown["checkpoint_verdict"] == checkpoint["message"]
    assert shown["checkpoint_head"] == checkpoint["tree_head"]
    await to_thread.run_sync((public / "checkpoint").write_bytes, b"no note\n")
    answer = (await door.http.get("/v1/checkpoint")).json()
    assert answer["checkpoint"]["verdict"] == "invalid"
    await door.operate(source("s-1"))
    assert not await door.services.publishing.publish_due()
    answer = (await door.http.get("/v1/checkpoint")).json()
    assert answer["problem"]["code"] == "output_unusable"
    shown = page(await LiveSource(door.services, 4).read())
    assert shown["checkpoint_problem"].endswith(" (output_unusable)")
    ready = (await door.http.get("/readyz")).json()
    assert "checkpoint" not in str(ready["problems"]), "the ledger is as good as it was"


async def test_a_handover_stands_on_the_log_once(published):
    door, _, _ = published
    await door.operate(source("s-1"))
    with door.ledger.view() as view:
        tree = view.log_tree()
        last = Checkpoint(ORIGIN, tree.size, tree.root())
    handover = hand_over(last, [log_key()], [log_key(seed=b"n")]).document
    path = "/v1/checkpoint/handovers"
    answers = [(await door.send(path, {"handover": handover})).json() for _ in range(2)]
    assert [answer["duplicate"] for answer in answers] == [False, True]
    assert answers[0]["operation_id"] == answers[1]["operation_id"]
    unsigned = handover | {"signatures": handover["signatures"][:1]}
    error_of(await door.send(path, {"handover": unsigned}), 422, "key_handover_invalid")
    other = hand_over(SignedLog(9).stated(1), [log_key()], [log_key(seed=b"n")]).document
    error_of(await door.send(path, {"handover": other}), 422, "key_handover_invalid")
    error_of(await door.send(path, {"handover": {}}), 422, "INVALID_REQUEST")
