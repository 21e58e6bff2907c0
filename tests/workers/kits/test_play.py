"""Kits played through real belief sessions come out as the notes on the kits say."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.belief.errors import BeliefError, BeliefInputError
from tests.kernel.build import FakeHost
from tests.workers.api.door import running_door
from workers.kits.adapters import adapter_of
from workers.kits.kit import Kit, Probe, bundled_kit
from workers.kits.oracles import ITBenchOracle, TwentyQOracle
from workers.kits.play import Game, GatewaySession, LocalSession, play

MAMMALS = {"cat", "cow", "dog", "horse"}
SECRETS = [
    ("20q_4", "dog", {"cat", "dog"}, 4),
    ("20q_4", "cat", {"cat", "dog"}, 4),
    ("20q_4", "eagle", {"eagle"}, 3),
    ("20q_4", "shark", {"shark"}, 3),
    ("20q_8", "dolphin", {"dolphin"}, 3),
    ("20q_8", "shark", {"shark"}, 3),
    ("20q_8", "eagle", {"eagle"}, 4),
    ("20q_8", "snake", {"snake"}, 4),
    *(("20q_8", secret, MAMMALS, 6) for secret in sorted(MAMMALS)),
]
LAG, DISK, DEPLOY, CONNECTIONS, NETWORK, CPU = (
    "check_replication_lag",
    "check_disk_usage",
    "check_deploy_version",
    "check_db_connections",
    "check_network_health",
    "check_cpu_throttle",
)
SCENARIOS = [
    (
        "itb_min_4",
        {LAG: "high", DISK: "ok", DEPLOY: "expected", CONNECTIONS: "high"},
        {"replication_lag"},
        [f"{LAG}:high", f"{DISK}:ok"],
    ),
    (
        "itb_min_4",
        {LAG: "normal", DISK: "full", DEPLOY: "unexpected", CONNECTIONS: "normal"},
        {"disk_full"},
        [f"{LAG}:normal", f"{DISK}:full", f"{CONNECTIONS}:normal"],
    ),
    (
        "sre_6",
        {
            LAG: "normal",
            DISK: "ok",
            DEPLOY: "expected",
            CONNECTIONS: "normal",
            NETWORK: "healthy",
            CPU: "throttled",
        },
        {"cpu_throttle"},
        [
            *(f"{LAG}:normal", f"{DISK}:ok", f"{DEPLOY}:expected"),
            *(f"{CONNECTIONS}:normal", f"{NETWORK}:healthy"),
        ],
    ),
]


def make_kit(hypotheses: list[str], probes: dict[str, dict[str, tuple[str, ...]]]) -> Kit:
    made = {name: Probe(name, name, removes) for name, removes in probes.items()}
    return Kit("twenty_questions", "made", "1", tuple(hypotheses), made)


def local(kit: Kit) -> LocalSession:
    return LocalSession(kit, FakeHost().host)


async def trail(session: LocalSession | GatewaySession, game: Game) -> list[str]:
    """Check that the audit tells the game, and return the observations."""
    events = await session.audit()
    assert [event["verb"] for event in events] == [
        "DECLARE_SESSION",
        *["ELIMINATE"] * len(game.turns),
    ]
    assert game.audit_entries == len(events)
    for turn, event in zip(game.turns, events[1:], strict=True):
        assert event["delta"]["eliminated"] == sorted(turn.eliminated)
        assert event["payload"]["justification"]["outcome"] == turn.outcome
    return [event["payload"]["observation_id"] for event in events[1:]]


@pytest.mark.parametrize(("name", "secret", "left", "entries"), SECRETS)
async def test_twenty_questions(name, secret, left, entries):
    kit = bundled_kit(name)
    session = local(kit)
    game = await play(adapter_of(kit), TwentyQOracle(kit).knowing(secret), session)
    assert (set(game.survivors), game.audit_entries) == (left, entries)
    await trail(session, game)


@pytest.mark.parametrize(("name", "scenario", "left", "observations"), SCENARIOS)
async def test_incidents(name, scenario, left, observations):
    kit = bundled_kit(name)
    session = local(kit)
    game = await play(adapter_of(kit), ITBenchOracle(kit, scenario).answer, session)
    assert set(game.survivors) == left
    assert await trail(session, game) == observations


async def test_over_http_a_game_comes_out_the_same_and_is_on_record():
    kit = bundled_kit("20q_8")
    oracle = TwentyQOracle(kit)
    host = FakeHost().host
    async with running_door(host=host) as door, door.client() as gateway:
        for secret in ("snake", "dog"):
            session = await GatewaySession.declare(gateway, kit, host)
            game = await play(adapter_of(kit), oracle.knowing(secret), session)
            await trail(session, game)
            here = await play(adapter_of(kit), oracle.knowing(secret), local(kit))
            assert game.survivors == here.survivors
            assert [turn.document() for turn in game.turns] == [
                turn.document() for turn in here.turns
            ]


@given(data=st.data(), hypotheses=st.sets(st.sampled_from("abcdefgh"), min_size=1))
async def test_what_is_true_is_never_eliminated_by_true_answers(data, hypotheses):
    names = sorted(hypotheses)
    rows = data.draw(st.lists(st.sets(st.sampled_from(names)), max_size=6))
    probes = {}
    for number, yes in enumerate(rows):
        # A hypothesis may be kept by both answers, and by one at least.
        also = data.draw(st.sets(st.sampled_from(names)))
        no = (hypotheses - yes) | also
        probes[f"p{number}"] = {
            "yes": tuple(sorted(hypotheses - yes)),
            "no": tuple(sorted(hypotheses - no)),
        }
    kit = make_kit(names, probes)
    secret = data.draw(st.sampled_from(names))
    game = await play(adapter_of(kit), TwentyQOracle(kit).knowing(secret), local(kit))
    assert secret in game.survivors
    assert len({turn.action.action_id for turn in game.turns}) == len(game.turns)


async def test_a_refused_outcome_eliminates_nothing_and_what_was_told_stays():
    kit = bundled_kit("20q_4")
    answers = iter(["no", "perhaps"])
    session = local(kit)
    with pytest.raises(BeliefInputError, match="perhaps"):
        await play(adapter_of(kit), lambda _: next(answers), session)
    assert (await session.snapshot())["survivors"] == ["eagle", "shark"]
    assert len(await session.audit()) == 2


async def test_an_adapter_that_never_ends_is_ended(monkeypatch):
    monkeypatch.setattr("workers.kits.play.TURNS_MAX", 5)
    kit = bundled_kit("20q_4")

    class Endless:
        def list_actions(self, snapshot):
            return adapter_of(kit).list_actions(snapshot)

        def apply_action(self, action_id, snapshot):
            return adapter_of(kit).apply_action(action_id, snapshot)

        def observe(self, context, raw):  # noqa: ARG002 - it sees nothing
            return []

    game = await play(Endless(), partial(TwentyQOracle(kit).answer, "dog"), local(kit))
    assert len(game.turns) == 5


def test_a_session_over_no_space_is_refused():
    kit = make_kit(["x" * 600], {})
    with pytest.raises(BeliefError, match="INVALID_REQUEST"):
        local(kit)
