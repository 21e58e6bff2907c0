"""Plays an adapter through a belief session until one hypothesis is left or nothing can be asked.

The session is one of this process, which nothing keeps, or one of a gateway, which is on record.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kernel.belief.adapter import Action, Answer, BeliefAdapter, EliminateMessage
from kernel.belief.provider import HypothesisSpace
from kernel.belief.session import BeliefSession
from kernel.belief.terms import OntologyBundle
from kernel.values.host import Host, iso_time
from workers.client.typed.belief_session import SessionClient
from workers.client.typed.gateway import GatewayClient
from workers.views.belief_sessions import Ontology

TURNS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Turn:
    """One action, its outcome, and what that eliminated."""

    action: Action
    outcome: str
    eliminated: tuple[str, ...]
    n_survivors: int

    def document(self) -> dict[str, Any]:
        """Return the turn as JSON has it."""
        return {
            "action_id": self.action.action_id,
            "prompt": self.action.prompt,
            "outcome": self.outcome,
            "eliminated": list(self.eliminated),
            "n_survivors": self.n_survivors,
        }


@dataclass(slots=True)
class Game:
    """The turns of a game, and the hypotheses that are left."""

    session_id: str
    turns: list[Turn] = field(default_factory=list)
    survivors: list[str] = field(default_factory=list)
    audit_entries: int = 0

    def document(self) -> dict[str, Any]:
        """Return the game as JSON has it."""
        return {
            "session_id": self.session_id,
            "turns": [turn.document() for turn in self.turns],
            "survivors": self.survivors,
            "audit_entries": self.audit_entries,
        }


async def play(
    adapter: BeliefAdapter,
    answer: Answer,
    session: "LocalSession | GatewaySession",
    show_turn: Callable[[Turn], None] = lambda _: None,
) -> Game:
    """Take the first action that is listed, until one hypothesis is left or none is listed.

    At most 10,000 actions are taken. Each elimination is durable when its session says so, so a
    game that breaks off leaves what was told.

    Raises:
        BeliefInputError: for an outcome that the adapter refuses; nothing of it was eliminated.
        BeliefError, GatewayError: what the session refuses.
    """
    game = Game(session.session_id)
    snapshot = await session.snapshot()
    for _ in range(TURNS_MAX):
        actions = [] if snapshot["n_survivors"] <= 1 else adapter.list_actions(snapshot)
        if not actions:
            break
        action = actions[0]
        outcome = answer(action)
        context = adapter.apply_action(action.action_id, snapshot)
        struck: list[str] = []
        for message in adapter.observe(context, outcome):
            struck += await session.eliminate(message)
        snapshot = await session.snapshot()
        turn = Turn(action, outcome, tuple(struck), snapshot["n_survivors"])
        game.turns.append(turn)
        show_turn(turn)
    game.survivors = list(snapshot["survivors"])
    game.audit_entries = len(await session.audit())
    return game


class LocalSession:
    """A belief session of this process; it is gone with it."""

    def __init__(self, space: HypothesisSpace, host: Host) -> None:
        self._host = host
        self._session, _ = BeliefSession.declare(
            host.new_id(),
            OntologyBundle(**_ontology(space)),
            space.hypothesis_ids(),
            event_id=host.new_id(),
            ts=iso_time(host.now_us()),
        )

    @property
    def session_id(self) -> str:
        """The id under which the session is played."""
        return self._session.session_id

    async def eliminate(self, message: EliminateMessage) -> list[str]:
        """Strike hypotheses; see `BeliefSession.eliminate`."""
        result = self._session.eliminate(
            **message.body(), event_id=self._host.new_id(), ts=iso_time(self._host.now_us())
        )
        return result.applied

    async def snapshot(self) -> dict[str, Any]:
        """Return the belief."""
        return self._session.snapshot()

    async def audit(self) -> list[dict[str, Any]]:
        """Return the whole trail, verified as it is read."""
        return [event.to_dict() for event in self._session.audit()]


class GatewaySession:
    """A belief session of a gateway; what it answered is on record."""

    def __init__(self, client: SessionClient) -> None:
        self.session_id = client.session_id
        self._client = client

    @classmethod
    async def declare(
        cls, gateway: GatewayClient, space: HypothesisSpace, host: Host
    ) -> "GatewaySession":
        """Declare a session over the hypotheses of a space.

        Raises:
            GatewayError: what the gateway refuses.
        """
        client = SessionClient(gateway, host.new_id())
        await client.declare(Ontology(**_ontology(space)), space.hypothesis_ids())
        return cls(client)

    async def eliminate(self, message: EliminateMessage) -> list[str]:
        """Strike hypotheses."""
        return (await self._client.eliminate(**message.body())).applied_eliminated

    async def snapshot(self) -> dict[str, Any]:
        """Return the belief."""
        return (await self._client.snapshot()).model_dump()

    async def audit(self) -> list[dict[str, Any]]:
        """Return the whole trail."""
        return [entry.model_dump() async for entry in self._client.audit()]


def _ontology(space: HypothesisSpace) -> dict[str, str]:
    return {
        "hypothesis_space_id": space.id(),
        "hypothesis_version": space.version(),
        "causal_graph_ref": "none",
        "causal_graph_version": "0",
    }
