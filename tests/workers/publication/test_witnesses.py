"""Asking witnesses: what counts, what stops the log, and that nobody can hold it up."""

import anyio
import httpx
import pytest

from kernel.proof.witness_policy import WitnessPolicy
from tests.signed_log import SignedLog, witness_key
from workers.environment.settings import Settings
from workers.publication import witnesses
from workers.publication.witnesses import ANSWER_BYTES_MAX, WitnessClient
from workers.witness.cosigned_folder import CosignedFolder
from workers.witness.process import witness_app
from workers.witness.witness import Witness

pytestmark = pytest.mark.anyio

LOG = SignedLog(20)
REWRITTEN = SignedLog(20, 3)
KEY = witness_key(1)
URL = "http://127.0.0.1:1/w1/"
POLICY = WitnessPolicy.of_bytes(
    f"log {LOG.verifiers[0].vkey}\nwitness w1 {KEY.verifier.vkey} {URL}\nquorum w1".encode()
)


def proving(size, log=LOG):
    async def prove(old_size):
        return log.path(old_size, size)

    return prove


def transport(app):
    mounted = httpx.ASGITransport(app=app, root_path="/w1")

    class Below(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request):
            assert request.url.path == "/w1/add-checkpoint"
            request.url = request.url.copy_with(path="/add-checkpoint")
            return await mounted.handle_async_request(request)

    return Below()


@pytest.fixture
def real(tmp_path):
    """A witness of ours behind the client."""
    CosignedFolder.make(tmp_path / "cosigned")
    witness = Witness([KEY], POLICY, CosignedFolder(tmp_path / "cosigned"), lambda: 7)
    return lambda: WitnessClient(POLICY, transport=transport(witness_app(witness, Settings())))


async def outcome(client, size, log=LOG):
    [reply] = await client.ask(log.signed(size), proving(size, log))
    return reply.outcome


async def test_a_witness_is_followed_from_wherever_it_is(real):
    client = real()
    assert await outcome(client, 5) == "cosigned"
    assert await outcome(client, 9) == "cosigned"
    assert await outcome(client, 9) == "cosigned"
    [reply] = await real().ask(LOG.signed(12), proving(12))
    assert reply.outcome == "cosigned"
    assert LOG.signed(12).with_signatures(reply.signatures).holding([KEY.verifier])


async def test_a_log_that_is_not_the_one_that_was_witnessed_is_diverged(real):
    await outcome(real(), 9)
    assert await outcome(real(), 9, REWRITTEN) == "diverged"
    assert await outcome(real(), 12, REWRITTEN) == "diverged"
    assert await outcome(real(), 5) == "diverged", "the log was cut"


async def test_a_look_asks_for_nothing_new(real):
    async def look(size, log=LOG):
        [reply] = await real().look(log.signed(size))
        return reply.outcome

    assert await look(5) == "behind"
    await outcome(real(), 5)
    assert [await look(9), await look(5), await look(4)] == ["behind", "cosigned", "diverged"]
    assert await look(5, REWRITTEN) == "diverged"


async def asked(answer):
    mock = httpx.MockTransport(answer)
    [reply] = await WitnessClient(POLICY, transport=mock).ask(LOG.signed(9), proving(9))
    return reply.outcome, reply.signatures


def line_of(key, log=LOG):
    return log.signed(9).sign(key, 7).note.signatures[-1].line


async def test_only_what_a_known_key_has_signed_counts():
    def answer(text):
        return httpx.Response(200, stream=httpx.ByteStream(text.encode()))

    known, stranger = line_of(KEY), line_of(witness_key(2))
    outcome, signatures = await asked(lambda _: answer(stranger + known))
    assert (outcome, [line.line for line in signatures]) == ("cosigned", [known])
    for text in (stranger, line_of(KEY, REWRITTEN), "junk\n", "", known[:-1], known + "\n"):
        assert await asked(lambda _, text=text: answer(text)) == ("refused", ())


SIZE = {"Content-Type": "text/x.tlog.size"}


@pytest.mark.parametrize(
    ("status", "headers", "content", "outcome"),
    [
        (409, SIZE, b"10\n", "diverged"),
        (409, SIZE, b"9\n", "diverged"),
        (409, SIZE, b"5\n", "diverged"),
        (409, SIZE, b"05\n", "refused"),
        (409, SIZE, b"5", "refused"),
        (409, SIZE, b"-5\n", "refused"),
        (409, {}, b"5\n", "refused"),
        (422, {}, b"", "diverged"),
        *((status, {}, b"", "refused") for status in (302, 400, 403, 404, 429, 500, 503)),
        (302, {"Location": "http://127.0.0.1:2/"}, b"", "refused"),
        (200, {"Content-Encoding": "gzip"}, b"\x1f\x8b", "unreachable"),
        (200, {}, b"x" * (ANSWER_BYTES_MAX + 1), "unreachable"),
        (200, {}, b"\xff", "unreachable"),
    ],
)
async def test_other_answers_are_no_cosignature(status, headers, content, outcome):
    def answer(_):
        return httpx.Response(status, headers=headers, stream=httpx.ByteStream(content))

    assert await asked(answer) == (outcome, ())


async def test_a_witness_that_changes_its_mind_is_asked_twice_and_no_more():
    sizes = iter([3, 5, 7, 8])

    def answer(_):
        content = b"%d\n" % next(sizes)
        return httpx.Response(409, headers=SIZE, stream=httpx.ByteStream(content))

    assert await asked(answer) == ("refused", ())
    assert next(sizes) == 7


async def test_a_witness_that_does_not_answer_holds_up_nobody(monkeypatch):
    monkeypatch.setattr(witnesses, "ASKED_S_MAX", 0.01)
    urls = [(witness_key(n).verifier.vkey, f"http://127.0.0.1:{n}/") for n in (1, 2)]
    lines = [f"witness w{n} {vkey} {url}" for n, (vkey, url) in enumerate(urls)]
    policy = WitnessPolicy.of_bytes("\n".join([*lines, "quorum none"]).encode())

    async def answer(request):
        if request.url.port == 1:
            await anyio.sleep_forever()
        raise httpx.ConnectError("nobody there")

    client = WitnessClient(policy, transport=httpx.MockTransport(answer))
    replies = await client.ask(LOG.signed(9), proving(9))
    assert sorted((reply.url, reply.outcome) for reply in replies) == [
        (url, "unreachable") for _, url in urls
    ]


async def test_a_policy_without_urls_asks_nobody():
    lines = f"witness w1 {KEY.verifier.vkey}\nquorum w1"
    assert await WitnessClient(WitnessPolicy.of_bytes(lines.encode())).look(LOG.signed(9)) == []
