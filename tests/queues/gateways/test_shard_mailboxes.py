"""The mailboxes of shards and the inboxes of gateways, in memory and on Redis."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis

from queues.errors import QueueError
from queues.gateways.inbox import NOTES_MAX, Inbox, reply_note
from queues.gateways.message_mac import Seal
from queues.gateways.shard_mailboxes import ShardMail
from tests.actors.ports import Hub, MemoryMail

pytestmark = pytest.mark.anyio

ENTRIES_MAX = 3
KEY = b"k" * 32


@pytest.fixture(params=["memory", "redis"])
def mail_of(request, redis, clock):
    """Makes the mail of a gateway."""
    if request.param == "memory":
        hub = Hub(clock)
        return lambda gateway: MemoryMail(hub, gateway, ENTRIES_MAX)
    return lambda gateway: ShardMail(redis, Inbox(redis, gateway), Seal(KEY), ENTRIES_MAX)


async def bodies(mail, shard, after=""):
    found = await mail.read({shard: after}, 100)
    return [one.body for one in found.get(shard, [])]


async def test_entries_are_read_in_order_and_by_place(mail_of):
    mail = mail_of("a")
    for body in (b"1", b"2", b"3"):
        assert await mail.post(7, body, "b")
    entries = (await mail.read({7: "", 8: ""}, 100))[7]
    assert [one.body for one in entries] == [b"1", b"2", b"3"]
    assert len({one.mailbox_id for one in entries}) == 1
    offsets = [one.offset for one in entries]
    assert offsets == sorted(offsets)
    assert await bodies(mail, 7, offsets[0]) == [b"2", b"3"]
    assert await bodies(mail, 8) == []
    assert [one.body for one in (await mail.read({7: ""}, 2))[7]] == [b"1", b"2"]


async def test_a_full_mailbox_takes_no_more_until_something_is_deleted(mail_of):
    mail = mail_of("a")
    for _ in range(ENTRIES_MAX):
        assert await mail.post(0, b"x", "b")
    assert not await mail.post(0, b"y", "b")
    assert await mail.post(1, b"z", "b")
    first = (await mail.read({0: ""}, 1))[0][0]
    assert await mail.delete({0: {first.offset}})
    assert await mail.post(0, b"y", "b")
    assert await bodies(mail, 0) == [b"x", b"x", b"y"]


async def test_the_owner_is_told_of_mail_and_the_asker_of_the_answer(mail_of):
    asker, owner = mail_of("a"), mail_of("b")
    await asker.post(5, b"x", "b")
    assert set((await owner.listen(0.05)).mail_for) == {5}
    await owner.reply({"a": [b"1", b"2"]})
    heard = await asker.listen(0.05)
    assert (list(heard.replies), set(heard.mail_for)) == ([b"1", b"2"], set())
    nothing = await asker.listen(0.01)
    assert (list(nothing.replies), nothing.leases_changed) == ([], False)


async def test_offsets_go_on_after_everything_was_deleted(mail_of):
    mail = mail_of("a")
    await mail.post(0, b"1", "b")
    [first] = (await mail.read({0: ""}, 1))[0]
    await mail.delete({0: {first.offset}})
    await mail.post(0, b"2", "b")
    [second] = (await mail.read({0: ""}, 1))[0]
    assert second.offset > first.offset
    assert second.mailbox_id == first.mailbox_id


async def test_a_mailbox_that_was_lost_has_a_successor_of_another_name(redis):
    mail = ShardMail(redis, Inbox(redis, "a"), Seal(KEY))
    await mail.post(0, b"1", "b")
    [before] = (await mail.read({0: ""}, 1))[0]
    await redis.flushdb()
    await mail.post(0, b"2", "b")
    [after] = (await mail.read({0: ""}, 1))[0]
    assert after.mailbox_id != before.mailbox_id


async def test_an_inbox_keeps_its_newest_notes_and_is_forgotten_in_time(redis):
    inbox = Inbox(redis, "a")
    for start in range(0, NOTES_MAX + 2000, 1000):
        await inbox.tell(["a"], *(reply_note(b"%d" % n) for n in range(start, start + 1000)))
    assert await redis.llen("rotulus:{gateway:a}:inbox") == NOTES_MAX
    assert 0 < await redis.ttl("rotulus:{gateway:a}:inbox") <= 60


async def test_a_shards_keys_carry_its_hash_tag(redis):
    await ShardMail(redis, Inbox(redis, "a"), Seal(KEY)).post(5, b"x", "b")
    keys = {key.decode() for key in await redis.keys("*")}
    assert keys == {
        "rotulus:{shard:5}:mail",
        "rotulus:{shard:5}:mailbox",
        "rotulus:{gateway:b}:inbox",
    }


async def test_a_redis_that_does_not_answer():
    redis = Redis.from_url("redis://127.0.0.1:1")
    mail = ShardMail(redis, Inbox(redis, "a"), Seal(KEY))
    assert await mail.read({0: ""}, 1) is None
    assert await mail.listen(0.01) is None
    assert not await mail.delete({0: {"1-1"}})
    await mail.reply({"b": [b"x"]})
    with pytest.raises(QueueError) as refused:
        await mail.post(0, b"x", "b")
    assert refused.value.code == "queue_unavailable"


# --- what is not sealed by a gateway of the ledger ------------------------------------------------


class Watched:
    """The mail of a gateway, and what it refused."""

    def __init__(self, redis, gateway, key=KEY):
        self.refused = []
        self.inbox = Inbox(redis, gateway)
        self.mail = ShardMail(redis, self.inbox, Seal(key), refused=self.refused.append)


async def forge(redis, shard, **fields):
    await redis.xadd(f"rotulus:{{shard:{shard}}}:mail", fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"mailbox": "0" * 16, "body": b"an asking without a seal"},
        {"mailbox": "0" * 16, "body": b""},
        {"mailbox": "0" * 16, "body": Seal(b"x" * 32).close("shard:0", b"another ledger's")},
        {"mailbox": "0" * 16, "body": Seal(KEY).close("shard:1", b"another shard's")},
        {"mailbox": "0" * 16, "body": Seal(KEY).close("gateway:a", b"an answer")},
        {"mailbox": b"\xff\x00", "body": Seal(KEY).close("shard:0", b"no mailbox")},
        {"mailbox": "0" * 16},
        {"something": "else"},
    ],
)
async def test_an_entry_that_no_gateway_sealed_for_the_shard_is_deleted_unread_and_counted(
    redis, fields
):
    watched = Watched(redis, "a")
    await watched.mail.post(0, b"1", "a")
    await forge(redis, 0, **fields)
    await watched.mail.post(0, b"2", "a")
    assert await bodies(watched.mail, 0) == [b"1", b"2"]
    assert watched.refused == ["entry"]
    assert await redis.xlen("rotulus:{shard:0}:mail") == 2
    assert await bodies(watched.mail, 0) == [b"1", b"2"]
    assert watched.refused == ["entry"]


async def test_a_gateway_of_another_key_reads_nothing_and_hears_no_answer(redis):
    one, other = Watched(redis, "a"), Watched(redis, "b", b"x" * 32)
    await one.mail.post(0, b"1", "b")
    assert await bodies(other.mail, 0) == []
    await one.mail.reply({"b": [b"1", b"2"]})
    heard = await other.mail.listen(0.05)
    assert (heard.replies, set(heard.mail_for)) == ([], {0})
    assert other.refused == ["entry", "answer", "answer"]


async def test_an_answer_that_no_gateway_sealed_for_this_one_is_not_heard(redis):
    watched = Watched(redis, "a")
    sealed = Seal(KEY).close("gateway:b", b"for another")
    await watched.inbox.tell(["a"], reply_note(b"forged"), reply_note(sealed))
    await watched.mail.reply({"a": [b"true"]})
    heard = await watched.mail.listen(0.05)
    assert heard.replies == [b"true"]
    assert watched.refused == ["answer", "answer"]


async def test_hints_that_say_nothing_are_passed_over(redis):
    inbox = Inbox(redis, "a")
    await inbox.tell(["a"], b"", b"m", b"mx", b"m-1", b"m" + b"9" * 30, b"?", b"m7")
    heard = await inbox.listen(0.05)
    assert (heard.replies, heard.mail_for, heard.leases_changed) == ([], {7}, False)


@given(st.binary(max_size=64), st.integers(0, 10**6), st.integers(1, 255))
def test_what_was_changed_anywhere_does_not_open(content, place, changed):
    seal = Seal(KEY)
    closed = seal.close("shard:1", content)
    assert seal.open("shard:1", closed) == content
    place %= len(closed)
    broken = closed[:place] + bytes([closed[place] ^ changed]) + closed[place + 1 :]
    assert seal.open("shard:1", broken) is None
    assert seal.open("shard:11", closed) is None
    assert Seal().open("shard:1", closed) is None
    assert seal.open("shard:1", closed[:-1]) is None
