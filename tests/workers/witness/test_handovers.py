"""A witness follows a log whose keys were handed over on the log, and no other hand-over."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.algebra.verbs import KEY_HANDOVER
from kernel.audit.proofs import handover_documents
from kernel.proof import handover_proof
from kernel.proof.add_checkpoint import AddCheckpoint
from kernel.proof.add_handover import PROOFS_MAX, REQUEST_BYTES_MAX, AddHandover
from kernel.proof.checkpoint import Checkpoint, SignedCheckpoint, sign_checkpoint
from kernel.proof.key_handover import hand_over
from kernel.proof.signed_note import signatures_of
from kernel.proof.verification import ProofInvalid
from tests.signed_log import log_key
from tests.workers.publication.published import ORIGIN, WITNESS, LogWorld
from tests.workers.witness.test_witness import killed_before
from workers.environment.checkpoint_key import hold_key
from workers.environment.key_file import CheckpointKeyUnusable

pytestmark = [pytest.mark.may_block, pytest.mark.spec("P5")]

MALLORY = (log_key(seed=b"m"),)


@pytest.fixture
def world(tmp_path):
    world = LogWorld.made(tmp_path / "world")
    world.grow(5)
    yield world
    world.close()


def signing(world):
    """The keys of the file that signs the log, which has signed its head by then."""
    with hold_key(world.key) as held:
        held.sign(world.ledger.read(lambda view: held.next_of(view.log_tree())))
        return held.keys


def request(world, keys, old_size, *, proofs=None, size=None):
    """What the log sends a witness: the head of its tree, signed, and the proofs of hand-overs."""

    def read(view):
        tree = view.log_tree()
        count = size or tree.size
        signed = sign_checkpoint(Checkpoint(ORIGIN, count, tree.root(count)), keys)
        note = signed.to_bytes().decode()
        verifiers = [key.verifier for key in keys]
        documents = handover_documents(view, count, note, verifiers, limit=PROOFS_MAX)
        path = tree.consistency_path(old_size, count)
        return AddCheckpoint(old_size, tuple(path), signed), [*map(orjson.dumps, documents)]

    add, honest = world.ledger.read(read)
    return AddHandover(add, tuple(honest if proofs is None else proofs))


def rows(view):
    return view.head().ec_sequence_number


@pytest.mark.anyio
async def test_a_log_that_was_handed_over_is_cosigned_on(world):
    await world.publisher(world.witnesses()).publish()
    for name in ("second.key", "third.key"):
        world.hand_over(name)
        witnesses = world.witnesses()
        publisher = world.publisher(witnesses)
        for _ in range(2):
            await publisher.publish()
            assert world.published().holding([WITNESS.verifier]) == {WITNESS.verifier: 7}
            assert world.published().stated.size == world.ledger.read(rows)
            world.grow(2)


@pytest.mark.anyio
async def test_a_witness_that_was_away_follows_over_several_handovers(world):
    await world.publisher(world.witnesses()).publish()
    for name in ("second.key", "third.key", "fourth.key"):
        world.hand_over(name)
        await world.publisher().publish()
        world.grow(1)
    for number in range(PROOFS_MAX + 1):
        last = world.published().stated
        world.record(hand_over(last, [log_key(seed=b"%d" % number)], MALLORY).document)
    await world.publisher(world.witnesses()).publish()
    assert WITNESS.verifier in world.published().holding([WITNESS.verifier])
    assert len(world.witness()._cosigned.handovers(ORIGIN)) == 3  # noqa: SLF001


def test_the_witness_goes_on_by_the_new_keys_and_the_old_ones_speak_no_more(world):
    old = signing(world)
    world.witness().add(request(world, old, 0, proofs=[b"{}"]).request.to_bytes())
    world.hand_over("second.key")
    new = signing(world)
    refused = world.witness().add(request(world, new, 5).request.to_bytes())
    assert refused.status == 403
    answer = world.witness().add_handover(request(world, new, 5).to_bytes())
    assert answer.status == 200
    signed = request(world, new, 5).request.checkpoint.with_signatures(signatures_of(answer.body))
    assert signed.holding([WITNESS.verifier])
    world.grow(2)
    assert world.witness().add(request(world, old, 6).request.to_bytes()).status == 403
    assert world.witness().add(request(world, new, 6).request.to_bytes()).status == 200


def test_a_forged_handover_is_followed_by_nobody(world):
    old = signing(world)
    witness = world.witness()
    assert witness.add(request(world, old, 0, proofs=[b"{}"]).request.to_bytes()).status == 200
    last = request(world, old, 0).request.checkpoint.stated
    # A hand-over from keys that are none of the log, on a log that the new ones sign.
    world.record(hand_over(last, [log_key(seed=b"x")], MALLORY).document)
    assert witness.add_handover(request(world, MALLORY, 5).to_bytes()).status == 403
    world.hand_over("second.key")
    new = signing(world)
    honest = request(world, new, 5)
    [proof] = honest.proofs
    [of_nobody] = request(world, MALLORY, 5).proofs
    forged = [
        [],
        [b"{}"],
        [proof.replace(b"index 6", b"index 5")],
        [proof.replace(b'\\"tree_size\\":\\"5', b'\\"tree_size\\":\\"4')],
        [request(world, new, 5, size=7).proofs[0].replace(b"\\n7\\n", b"\\n8\\n")],
        [of_nobody],
        [of_nobody, proof],
        [proof] * (PROOFS_MAX + 1),
    ]
    for proofs in forged:
        assert proofs != [proof]
        answer = witness.add_handover(request(world, new, 5, proofs=proofs).to_bytes())
        assert answer.status in (400, 403), proofs
    # The proof is that of the checkpoint that is to be cosigned, not of another one.
    world.grow(1)
    other = request(world, new, 5, proofs=[proof])
    assert witness.add_handover(other.to_bytes()).status == 403
    assert witness.add(other.request.to_bytes()).status == 403
    assert not witness._cosigned.handovers(ORIGIN)  # noqa: SLF001
    assert witness.add_handover(request(world, new, 5).to_bytes()).status == 200


def test_keys_that_were_handed_over_are_handed_over_once(world):
    """Whoever has stolen the old keys hands the log over to his own, behind it or before it."""
    old = signing(world)
    witness = world.witness()
    stolen = request(world, old, 0, size=3, proofs=[b"{}"]).request
    witness.add(stolen.to_bytes())
    world.hand_over("second.key")
    assert witness.add_handover(request(world, signing(world), 3).to_bytes()).status == 200
    for size in (2, 3, 5, 6):
        last = request(world, old, 0, size=size).request.checkpoint.stated
        world.record(hand_over(last, old, MALLORY).document)
        for proofs in (None, request(world, MALLORY, 6).proofs[-1:]):
            again = request(world, MALLORY, 6, proofs=proofs)
            assert witness.add_handover(again.to_bytes()).status == 403
    assert len(witness._cosigned.handovers(ORIGIN)) == 1  # noqa: SLF001


def test_a_handover_from_another_history_is_not_followed(world):
    old = signing(world)
    witness = world.witness()
    witness.add(request(world, old, 0, proofs=[b"{}"]).request.to_bytes())
    elsewhere = Checkpoint(ORIGIN, 5, b"\x07" * 32)
    world.record(hand_over(elsewhere, old, MALLORY).document)
    answer = witness.add_handover(request(world, MALLORY, 5).to_bytes())
    assert (answer.status, "another log" in answer.body) == (403, True)


def test_a_log_that_is_not_known_is_not_followed(world):
    world.hand_over("second.key")
    vkeys, world.vkeys = world.vkeys, [log_key("other.example").verifier.vkey]
    new = signing(world)
    assert world.witness().add_handover(request(world, new, 0).to_bytes()).status == 404
    world.vkeys = vkeys
    assert world.witness().add_handover(request(world, new, 0).to_bytes()).status == 200


def test_a_kill_at_any_step_leaves_the_handover_with_its_checkpoint_or_neither(world):
    old = signing(world)
    world.witness().add(request(world, old, 0, proofs=[b"{}"]).request.to_bytes())
    world.hand_over("second.key")
    new = signing(world)
    following = request(world, new, 5)
    total, status = killed_before(0, world.witness().add_handover, following.to_bytes()).split()
    assert status == "200"
    [file] = world.cosigned.glob("*.handovers.json")
    [before] = world.cosigned.glob("*.checkpoint")
    index = world.cosigned / "index.json"
    cosigned, seen = before.read_bytes(), set()
    for step in range(1, int(total) + 1):
        file.unlink(missing_ok=True)
        index.write_bytes(orjson.dumps({before.name: 5}))
        before.write_bytes(cosigned)
        assert killed_before(step, world.witness().add_handover, following.to_bytes()) == ""
        kept = world.witness()._cosigned  # noqa: SLF001
        size, followed = kept.latest(ORIGIN).stated.size, len(kept.handovers(ORIGIN))
        assert (size, followed) in {(5, 0), (6, 1)}
        seen.add(followed)
        # Whatever was killed, the same request goes on.
        again = request(world, new, size)
        assert world.witness().add_handover(again.to_bytes()).status == 200
        assert world.witness().add(request(world, new, 6).request.to_bytes()).status == 200
    assert seen == {0, 1}


def test_what_is_kept_of_handovers_is_read_or_nothing_is_cosigned(world):
    old = signing(world)
    world.hand_over("second.key")
    new = signing(world)
    world.witness().add_handover(request(world, new, 0).to_bytes())
    [file] = world.cosigned.glob("*.handovers.json")
    document = orjson.loads(file.read_bytes())
    signed = SignedCheckpoint.of_bytes(document["checkpoint"].encode())
    assert signed.stated.size == 6
    for content in (b"", b"{}", b"[]", orjson.dumps(document | {"handovers": [{}]})):
        file.write_bytes(content)
        with pytest.raises(CheckpointKeyUnusable):
            world.witness().add(request(world, old, 0).request.to_bytes())


@given(
    st.recursive(
        st.none() | st.integers(-9, 9) | st.text(max_size=9),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["format", "add_checkpoint", "proofs", "x"]), inner, max_size=4
            )
        ),
    )
)
def test_what_a_stranger_sends_is_no_handover(value):
    for content in (orjson.dumps(value), repr(value).encode()):
        with pytest.raises(ProofInvalid):
            AddHandover.of_bytes(content)
        with pytest.raises(ProofInvalid):
            handover_proof.verify_handover(content)


def test_a_request_has_a_limit_and_the_verb_is_that_of_the_record():
    with pytest.raises(ProofInvalid):
        AddHandover.of_bytes(b" " * (REQUEST_BYTES_MAX + 1))
    assert handover_proof.HANDOVER_VERB == KEY_HANDOVER
