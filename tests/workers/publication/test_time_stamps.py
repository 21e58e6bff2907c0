"""Time stamps over checkpoints: of a real authority, and whatever else may answer in its place."""

import httpx
import pytest
from anyio import to_thread
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.signed_log import SignedLog
from tests.workers.cli.command import printed, rotulus
from tests.workers.publication.authority import URL, Authority, reply_of
from workers.cli import checkpoint_stamp
from workers.publication.time_stamps import (
    STAMP_BYTES_MAX,
    TimeStampInvalid,
    TimeStampUnavailable,
    roots_of,
    time_stamp,
    verify_time_stamp,
)

TEXT = SignedLog(9).signed(9).note.text.encode()


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tsa") / "own")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tsa") / "stranger")


@pytest.fixture(scope="module")
def stamp(authority):
    """A stamp over the text, taken once."""
    import anyio  # noqa: PLC0415 - where no test has a loop of its own

    roots = roots_of(authority.pem)
    return anyio.run(lambda: time_stamp(URL, TEXT, roots, transport=authority.transport()))


def test_a_stamp_says_when_the_checkpoint_was_there(authority, stamp):
    roots = roots_of(authority.pem)
    again = verify_time_stamp(stamp.content, TEXT, roots)
    assert again.stamped_at == stamp.stamped_at
    assert stamp.stamped_at.tzinfo is not None
    assert authority.verifies(stamp.content, TEXT), "openssl reads it too"
    assert not authority.verifies(stamp.content, TEXT + b"x")


def test_a_stamp_is_one_of_its_text_and_of_its_authority(authority, stranger, stamp):
    for text, pem in ((TEXT + b"x", authority.pem), (TEXT, stranger.pem)):
        with pytest.raises(TimeStampInvalid):
            verify_time_stamp(stamp.content, text, roots_of(pem))
    with pytest.raises(TimeStampInvalid):
        roots_of(b"no certificates")
    with pytest.raises(TimeStampInvalid):
        verify_time_stamp(stamp.content, TEXT, [])


@settings(max_examples=200)
@given(st.data())
def test_a_stamp_of_which_anything_was_changed_is_none(authority, stamp, data):
    content = bytearray(stamp.content)
    index = data.draw(st.integers(0, len(content) - 1))
    content[index] ^= data.draw(st.integers(1, 255))
    try:
        changed = verify_time_stamp(bytes(content), TEXT, roots_of(authority.pem))
    except TimeStampInvalid:
        return
    # What nobody signs may read otherwise: it says the same of the text.
    assert changed.stamped_at == stamp.stamped_at


@given(st.binary(max_size=200))
def test_what_a_stranger_sends_is_no_stamp(authority, content):
    with pytest.raises(TimeStampInvalid):
        verify_time_stamp(content, TEXT, roots_of(authority.pem))


def test_a_stamp_is_not_longer_than_it_may_be(authority):
    with pytest.raises(TimeStampInvalid):
        verify_time_stamp(bytes(STAMP_BYTES_MAX + 1), TEXT, roots_of(authority.pem))


@pytest.mark.anyio
async def test_an_answer_to_another_request_is_no_answer(authority, stamp):
    """A stamp that was taken before, of the same text, says nothing of now."""
    roots = await to_thread.run_sync(roots_of, authority.pem)
    replayed = httpx.MockTransport(lambda _: reply_of(stamp.content))
    with pytest.raises(TimeStampInvalid, match="Nonce"):
        await time_stamp(URL, TEXT, roots, transport=replayed)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(500),
        httpx.Response(302, headers={"Location": "http://elsewhere.test"}),
        httpx.Response(200, headers={"Content-Type": "text/html"}, content=b"hello"),
        reply_of(bytes(STAMP_BYTES_MAX + 1)),
    ],
)
async def test_whatever_else_is_answered_is_no_stamp(authority, answer):
    transport = httpx.MockTransport(lambda _: answer)
    with pytest.raises(TimeStampUnavailable):
        await time_stamp(URL, TEXT, roots_of(authority.pem), transport=transport)


@pytest.mark.anyio
async def test_an_authority_that_is_away_is_named(authority):
    def away(_):
        raise httpx.ConnectError("away")

    with pytest.raises(TimeStampUnavailable, match=r"tsa\.test"):
        await time_stamp(URL, TEXT, roots_of(authority.pem), transport=httpx.MockTransport(away))


def test_the_commands_take_a_stamp_and_verify_it(authority, tmp_path, monkeypatch):
    note, roots, stamp = (tmp_path / name for name in ("note", "roots.pem", "stamp.tsr"))
    note.write_bytes(SignedLog(9).signed(9).to_bytes())
    roots.write_bytes(authority.pem)

    def asked(url, text, roots):
        return time_stamp(url, text, roots, transport=authority.transport())

    monkeypatch.setattr(checkpoint_stamp, "time_stamp", asked)
    options = ("--tsa-roots", str(roots))
    taken = printed(
        *("checkpoint", "stamp", str(note), "--tsa", URL, "--output", str(stamp)),
        *(*options, "--json"),
    )
    verify = ("checkpoint", "verify-stamp")
    assert printed(*verify, str(note), str(stamp), *options, "--json") == taken
    note.write_bytes(SignedLog(9).signed(8).to_bytes())
    refused = rotulus(*verify, str(note), str(stamp), *options)
    assert (refused.exit_code, "time_stamp_invalid" in refused.stderr) == (1, True)
