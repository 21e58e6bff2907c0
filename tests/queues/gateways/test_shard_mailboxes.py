"""The mailboxes of shards and the inboxes of gateways, in memory and on Redis."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis

from queues.errors import QueueError
from queues.gateways.inbox import NOTES_MAX, Inbox, reply_note
from queues.gateways.message_seal import MessageSeal, Opened
from queues.gateways.shard_mailboxes import VALID_MS, ShardMail
from tests.actors.ports import Hub, MemoryMail

ASKS = count()
pytestmark = pytest.mark.anyio

ENTRIES_MAX = 3
KEY = b"k" * 32


@pytest.fixture(params=["memory", "redis"])
def mail_of(request, redis, clock):
    if request.param == "memory":
        hub = Hub(clock)
        return lambda gateway: MemoryMail(hub, gateway, ENTRIES_MAX)
    return lambda gateway: ShardMail(redis, Inbox(redis, gateway), MessageSeal(KEY), ENTRIES_MAX)


async def bodies(mail, shard, after=""):
    snapshot = await mail.read({shard: after}, 100)
    return [entry.body for entry in snapshot.get(shard, [])]


async def test_entries_are_read_in_order_and_by_place(mail_of):
    mail = mail_of("a")
    for body in (b"1", b"2", b"3"):
        assert await mail.post(7, f"ask-{next(ASKS)}", body, "b")
    entries = (await mail.read({7: "", 8: ""}, 100))[7]
    assert [entry.body for entry in entries] == [b"1", b"2", b"3"]
    assert len({entry.mailbox_id for entry in entries}) == 1
    offsets = [entry.offset for entry in entries]
    assert offsets == sorted(offsets)
    assert await bodies(mail, 7, offsets[0]) == [b"2", b"3"]
    assert await bodies(mail, 8) == []
    assert [mail_entry.body for mail_entry in (await mail.read({7: ""}, 2))[7]] == [b"1", b"2"]


async def test_a_full_mailbox_takes_no_more_until_something_is_deleted(mail_of):
    mail = mail_of("a")
    for _ in range(ENTRIES_MAX):
        assert await mail.post(0, f"ask-{next(ASKS)}", b"x", "b")
    assert not await mail.post(0, f"ask-{next(ASKS)}", b"y", "b")
    assert await mail.post(1, f"ask-{next(ASKS)}", b"z", "b")
    first = (await mail.read({0: ""}, 1))[0][0]
    assert await mail.delete({0: {first.offset}})
    assert await mail.post(0, f"ask-{next(ASKS)}", b"y", "b")
    assert await bodies(mail, 0) == [b"x", b"x", b"y"]


async def test_the_owner_is_told_of_mail_and_the_asker_of_the_answer(mail_of):
    asker, owner = mail_of("a"), mail_of("b")
    await asker.post(5, f"ask-{next(ASKS)}", b"x", "b")
    assert set((await owner.listen(0.05)).mail_for) == {5}
    await owner.reply({"a": [("1", b"1"), ("2", b"2")]})
    heard = await asker.listen(0.05)
    assert (list(heard.replies), set(heard.mail_for)) == ([b"1", b"2"], set())
    nothing = await asker.listen(0.01)
    assert (list(nothing.replies), nothing.leases_changed) == ([], False)


async def test_offsets_go_on_after_everything_was_deleted(mail_of):
    mail = mail_of("a")
    await mail.post(0, f"ask-{next(ASKS)}", b"1", "b")
    [first] = (await mail.read({0: ""}, 1))[0]
    await mail.delete({0: {first.offset}})
    await mail.post(0, f"ask-{next(ASKS)}", b"2", "b")
    [second] = (await mail.read({0: ""}, 1))[0]
    assert second.offset > first.offset
    assert second.mailbox_id == first.mailbox_id


async def test_a_mailbox_that_was_lost_has_a_successor_of_another_name(redis):
    mail = ShardMail(redis, Inbox(redis, "a"), MessageSeal(KEY))
    await mail.post(0, f"ask-{next(ASKS)}", b"1", "b")
    [before] = (await mail.read({0: ""}, 1))[0]
    await redis.flushdb()
    await mail.post(0, f"ask-{next(ASKS)}", b"2", "b")
    [after] = (await mail.read({0: ""}, 1))[0]
    assert after.mailbox_id != before.mailbox_id


async def test_an_inbox_keeps_its_newest_notes_and_is_forgotten_in_time(redis):
    inbox = Inbox(redis, "a")
    for start in range(0, NOTES_MAX + 2000, 1000):
        await inbox.tell(["a"], *(reply_note(b"%d" % n) for n in range(start, start + 1000)))
    assert await redis.llen("rotulus:{gateway:a}:inbox") == NOTES_MAX
    assert 0 < await redis.ttl("rotulus:{gateway:a}:inbox") <= 60


async def test_a_shards_keys_carry_its_hash_tag(redis):
    await ShardMail(redis, Inbox(redis, "a"), MessageSeal(KEY)).post(
        5, f"ask-{next(ASKS)}", b"x", "b"
    )
    keys = {key.decode() async for key in redis.scan_iter()}
    assert keys == {
        "rotulus:{shard:5}:mail",
        "rotulus:{shard:5}:mailbox",
        "rotulus:{gateway:b}:inbox",
    }


async def test_a_redis_that_does_not_answer():
    redis = Redis.from_url("redis://127.0.0.1:1")
    mail = ShardMail(redis, Inbox(redis, "a"), MessageSeal(KEY))
    assert await mail.read({0: ""}, 1) is None
    assert await mail.listen(0.01) is None
    assert not await mail.delete({0: {"1-1"}})
    await mail.reply({"b": [("x", b"x")]})
    with pytest.raises(QueueError) as refused:
        await mail.post(0, f"ask-{next(ASKS)}", b"x", "b")
    assert refused.value.code == "queue_unavailable"


# --- what is not sealed by a gateway of the ledger ------------------------------------------------


def sealed(place, direction="ask", key=KEY):
    return MessageSeal(key).close(direction, place, "x", 2**62, b"content")


class WatchedMail:
    """The mail of a gateway, and what it refused."""

    def __init__(self, redis, gateway, key=KEY):
        self.refused = []
        self.inbox = Inbox(redis, gateway)
        self.now_s = 1_790_000_000.0
        self.mail = ShardMail(
            redis,
            self.inbox,
            MessageSeal(key),
            refused=self.refused.append,
            clock_s=lambda: self.now_s,
        )


async def forge(redis, shard, **fields):
    await redis.xadd(f"rotulus:{{shard:{shard}}}:mail", fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"mailbox": "0" * 16, "body": b"an asking without a seal"},
        {"mailbox": "0" * 16, "body": b""},
        {"mailbox": "0" * 16, "body": sealed("shard:0", key=b"x" * 32)},
        {"mailbox": "0" * 16, "body": sealed("shard:1")},
        {"mailbox": "0" * 16, "body": sealed("gateway:a", "answer")},
        {"mailbox": b"\xff\x00", "body": sealed("shard:0")},
        {"mailbox": "0" * 16},
        {"something": "else"},
    ],
)
async def test_an_entry_that_no_gateway_sealed_for_the_shard_is_deleted_unread_and_counted(
    redis, fields
):
    watched = WatchedMail(redis, "a")
    await watched.mail.post(0, f"ask-{next(ASKS)}", b"1", "a")
    await forge(redis, 0, **fields)
    await watched.mail.post(0, f"ask-{next(ASKS)}", b"2", "a")
    assert await bodies(watched.mail, 0) == [b"1", b"2"]
    assert watched.refused == ["entry"]
    assert await redis.xlen("rotulus:{shard:0}:mail") == 2
    assert await bodies(watched.mail, 0) == [b"1", b"2"]
    assert watched.refused == ["entry"]


async def test_a_gateway_of_another_key_reads_nothing_and_hears_no_answer(redis):
    first, other = WatchedMail(redis, "a"), WatchedMail(redis, "b", b"x" * 32)
    await first.mail.post(0, f"ask-{next(ASKS)}", b"1", "b")
    assert await bodies(other.mail, 0) == []
    await first.mail.reply({"b": [("1", b"1"), ("2", b"2")]})
    heard = await other.mail.listen(0.05)
    assert (heard.replies, set(heard.mail_for)) == ([], {0})
    assert other.refused == ["entry", "answer", "answer"]


async def test_an_answer_that_no_gateway_sealed_for_this_one_is_not_heard(redis):
    watched = WatchedMail(redis, "a")
    other = sealed("gateway:b", "answer")
    await watched.inbox.tell(["a"], reply_note(b"forged"), reply_note(other))
    await watched.mail.reply({"a": [("t", b"true")]})
    heard = await watched.mail.listen(0.05)
    assert heard.replies == [b"true"]
    assert watched.refused == ["answer", "answer"]


async def test_hints_that_say_nothing_are_passed_over(redis):
    inbox = Inbox(redis, "a")
    await inbox.tell(["a"], b"", b"m", b"mx", b"m-1", b"m" + b"9" * 30, b"?", b"m7")
    heard = await inbox.listen(0.05)
    assert (heard.replies, heard.mail_for, heard.leases_changed) == ([], {7}, False)


@given(
    st.binary(max_size=64),
    st.text(max_size=40),
    st.integers(0, 2**63),
    st.integers(0, 10**6),
    st.integers(0, 7),
)
def test_what_was_changed_anywhere_does_not_open(content, ask_id, expires_at_ms, place, bit):
    seal = MessageSeal(KEY)
    closed = seal.close("ask", "shard:1", ask_id, expires_at_ms, content)
    assert seal.open("ask", "shard:1", closed) == Opened(ask_id, expires_at_ms, content)
    place %= len(closed)
    broken = closed[:place] + bytes([closed[place] ^ 1 << bit]) + closed[place + 1 :]
    assert seal.open("ask", "shard:1", broken) is None
    assert seal.open("ask", "shard:11", closed) is None, "another shard's"
    assert seal.open("answer", "shard:1", closed) is None, "reflected"
    assert MessageSeal(b"o" * 32).open("ask", "shard:1", closed) is None, "another ledger's"
    assert seal.open("ask", "shard:1", closed[:-1]) is None
    assert len(content) < 8 or content not in closed, "it cannot be read"


@given(st.text(max_size=8), st.text(max_size=8), st.binary(max_size=8))
def test_an_answer_is_of_the_asking_that_it_was_sealed_for(ask_id, other_id, content):
    seal = MessageSeal(KEY)
    closed = seal.close("answer", "gateway:a", ask_id, 1, content)
    name, other = ask_id.encode(), other_id.encode()
    exchanged = closed[:17] + bytes([len(other)]) + other + closed[18 + len(name) :]
    opened = seal.open("answer", "gateway:a", exchanged)
    assert (opened is None) == (name != other)


@given(st.binary(max_size=300))
def test_nothing_that_is_no_seal_opens_or_raises(content):
    assert MessageSeal(KEY).open("ask", "shard:1", content) is None
    assert MessageSeal(KEY).open("ask", "shard:1", b"\x02" + bytes(7) + b"\x01" + content) is None


def test_two_seals_of_the_same_are_not_alike():
    seal = MessageSeal(KEY)
    assert len({seal.close("ask", "shard:1", "a", 1, b"same") for _ in range(100)}) == 100


async def aged(redis, shard, age_s):
    """Let what waits in a mailbox have been put there some time ago."""
    key = f"rotulus:{{shard:{shard}}}:mail"
    entries = await redis.xrange(key)
    await redis.delete(key)
    for stream_id, fields in entries:
        ms, _, number = stream_id.decode().partition("-")
        await redis.xadd(key, fields, id=f"{int(ms) - int(age_s * 1000)}-{number}")


async def test_what_has_expired_is_deleted_and_counted(redis):
    watched = WatchedMail(redis, "a")
    await watched.mail.post(0, "ask-1", b"1", "a")
    await aged(redis, 0, VALID_MS / 1000)
    await watched.mail.reply({"a": [("ask-2", b"2")]})
    watched.now_s += VALID_MS / 1000
    assert await bodies(watched.mail, 0) == []
    assert (await watched.mail.listen(0.05)).replies == []
    assert watched.refused == ["expired", "expired"]
    assert await redis.xlen("rotulus:{shard:0}:mail") == 0


@pytest.mark.parametrize(
    ("behind_s", "differs"), [(0, False), (119, False), (-119, False), (121, True), (-121, True)]
)
async def test_an_asker_whose_clock_is_minutes_off_is_told_and_hears_it(redis, behind_s, differs):
    asker, owner = WatchedMail(redis, "a"), WatchedMail(redis, "b")
    asker.now_s -= behind_s
    await asker.mail.post(0, "ask-1", b"1", "b")
    [entry] = (await owner.mail.read({0: ""}, 10))[0]
    assert entry.clocks_differ is differs
    assert owner.refused == ["clocks_differ"] * differs
    await owner.mail.reply({"a": [("ask-1", b"an answer")]})
    assert (await asker.mail.listen(0.05)).replies == [b"an answer"]
    assert asker.refused == []


async def test_what_is_put_there_again_is_not_taken_again(redis):
    watched = WatchedMail(redis, "a")
    await watched.mail.post(0, "ask-1", b"1", "a")
    [(_, fields)] = await redis.xrange("rotulus:{shard:0}:mail")
    [entry] = (await watched.mail.read({0: ""}, 10))[0]
    await forge(redis, 0, **{name.decode(): value for name, value in fields.items()})
    assert await bodies(watched.mail, 0) == [b"1"], "the first stands where it was read"
    assert watched.refused == ["replayed"]
    await watched.mail.delete({0: {entry.offset}})
    fields = {**fields, b"mailbox": b"0" * 16}
    await forge(redis, 0, **{name.decode(): value for name, value in fields.items()})
    assert await bodies(watched.mail, 0) == []
    assert watched.refused == ["replayed", "replayed"]


async def ends(mail, shard):
    snapshot = await mail.read({shard: ""}, 100)
    return [entry.ends for entry in snapshot.get(shard, [])]


async def test_an_entry_is_counted_from_its_taking_until_it_is_deleted_or_given_back(mail_of):
    mail = mail_of("a")
    for body in (b"1", b"2", b"3"):
        await mail.post(0, f"ask-{body}", body, "a")
    first, second, _ = [mail_entry.offset for mail_entry in (await mail.read({0: ""}, 100))[0]]
    for _ in range(2):
        assert await mail.take({0: [first, second]})
    assert await ends(mail, 0) == [2, 2, 0]
    assert await mail.give_back({0: [second]})
    assert await ends(mail, 0) == [2, 1, 0]
    assert await mail.delete({0: [first]})
    assert await ends(mail, 0) == [1, 0]


async def test_what_is_set_aside_is_seen_and_can_be_put_back_to_be_taken_as_new(mail_of):
    mail = mail_of("a")
    await mail.post(0, "ask-1", b"1", "a")
    await mail.post(0, "ask-2", b"2", "a")
    first = (await mail.read({0: ""}, 1))[0][0].offset
    await mail.take({0: [first]})
    await mail.set_aside(0, first)
    assert await bodies(mail, 0) == [b"2"]
    [kept] = await mail.aside([0, 1])
    assert (kept.shard, kept.offset) == (0, first)
    assert await mail.put_back(0, first, "a")
    assert not await mail.put_back(0, first, "a")
    assert await bodies(mail, 0) == [b"2", b"1"]
    assert await ends(mail, 0) == [0, 0]
    assert await mail.aside([0]) == []


@pytest.mark.spec("kernel/0660")
async def test_mail_waits_until_its_reader_has_the_key_and_is_given_up_under_a_later_one(redis):
    seal, refused = MessageSeal(), []
    mail = ShardMail(redis, Inbox(redis, "a"), seal, ENTRIES_MAX, refused.append)
    with pytest.raises(QueueError) as raised:
        await mail.post(0, "ask-1", b"1", "a")
    assert raised.value.code == "mail_key_missing"
    await ShardMail(redis, Inbox(redis, "b"), MessageSeal(KEY)).post(0, "ask-1", b"1", "a")
    assert await mail.read({0: ""}, 10) == {}
    seal.use(KEY, 1)
    assert [entry.body for entry in (await mail.read({0: ""}, 10) or {})[0]] == [b"1"]
    seal.use(b"o" * 32, 2)
    assert await mail.read({0: ""}, 10) == {}
    assert refused == ["earlier_key"]
    assert await redis.xlen("rotulus:{shard:0}:mail") == 0
