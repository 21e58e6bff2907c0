"""Keeps one docket's line of sessions: each strike goes to the newest, each undoing adds one.

A docket that is new, or that has grown at its end, takes the steps of its plan in order. Otherwise
the court has changed what it had docketed: an entry was corrected, struck, moved or filed late, or
an earlier release read the docket otherwise. Then the newest session on record is succeeded by one
that holds what the docket says now, and nothing is taken back in the sessions before it.
"""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid5

from kernel.values.canonical import canonicalize, digest
from workers.client.typed.gateway import GatewayClient
from workers.dockets.plan import SESSION_NAMESPACE, DocketPlan, PlannedSuccession, Strike

CORRECTED = "Entries of the docket were corrected, struck or filed late."
NAMED_MAX = 100

Stated = dict[str, bytes]
"""What each observation of a session states: its ids and its justification, as canonical bytes."""


@dataclass(slots=True)
class StrikeCounts:
    """The counts of what a docket's sessions were told."""

    eliminated: int = 0
    already_struck: int = 0
    succeeded: int = 0


@dataclass(slots=True)
class _Planned:
    """One session of the line as the plan has it."""

    session_id: str
    strikes: dict[str, Strike] = field(default_factory=dict)
    """What holds in it, by observation, in order."""

    begun_by: PlannedSuccession | None = None

    def statements(self) -> Stated:
        return {name: _statement_bytes(strike.body()) for name, strike in self.strikes.items()}


class DocketSessions:
    """The belief sessions of one docket on a gateway."""

    def __init__(self, gateway: GatewayClient, plan: DocketPlan, counts: StrikeCounts) -> None:
        self._gateway = gateway
        self._plan = plan
        self._counts = counts
        self.session_id = str(plan.session_id)
        """The session that says what stands."""

        self._known: Stated | None = None
        """What the newest session on record states, where the docket does not just go on."""

    async def open(self, declaration: dict[str, Any]) -> None:
        """Declare the first session, and find out what is on record behind it."""
        answer = await self._gateway.post("/v1/sessions", declaration)
        snapshot = answer["snapshot"]
        is_new = snapshot["n_survivors"] == len(declaration["hypotheses"])
        if is_new and "successor_id" not in snapshot:
            return
        recorded = [line async for line in self._recorded_sessions()]
        if not _goes_on(recorded, [*_sessions_of_plan(self._plan)]):
            self.session_id, self._known = recorded[-1]

    async def take(self, step: Strike | PlannedSuccession) -> None:
        """Take a step of the plan."""
        if self._known is not None:
            return
        if isinstance(step, Strike):
            await self._strike(step)
        else:
            await self._succeed(step.body())

    async def settle(self) -> None:
        """Bring the newest session to what the docket says now, where its course was changed."""
        if self._known is None:
            return
        *_, newest = _sessions_of_plan(self._plan)
        known, planned = self._known, newest.statements()
        gone = [name for name, stated in known.items() if planned.get(name) != stated]
        if gone:
            await self._succeed(self._correction(gone, planned))
        for name, strike in newest.strikes.items():
            if known.get(name) != planned[name]:
                await self._strike(strike)

    def _correction(self, gone: list[str], planned: Stated) -> dict[str, Any]:
        source_id = self._plan.declare.metadata["source_id"]
        known = self._known or {}
        carried = [name for name in known if name not in set(gone)]
        undoing = next(
            (
                session.begun_by
                for session in reversed([*_sessions_of_plan(self._plan)])
                if session.begun_by is not None and set(gone) & set(session.begun_by.undone)
            ),
            None,
        )
        cause = {"rule": "docket_corrected"} if undoing is None else undoing.cause.document()
        content = {name: stated.decode() for name, stated in planned.items()}
        place = f"{self.session_id}:{digest(content)}"
        return {
            "successor_id": str(uuid5(SESSION_NAMESPACE, place)),
            "reason": CORRECTED if undoing is None else undoing.reason,
            "carried": [{"source_id": source_id, "observation_id": name} for name in carried],
            "cause": cause | {"undone": gone[:NAMED_MAX]},
        }

    async def _strike(self, step: Strike) -> None:
        path = f"/v1/sessions/{self.session_id}/eliminate"
        answer = await self._gateway.post(path, step.body())
        applied, ignored = answer["applied_eliminated"], answer["ignored_eliminated"]
        again = len(applied) if answer["duplicate"] else 0
        self._counts.eliminated += len(applied) - again
        self._counts.already_struck += len(ignored) + again

    async def _succeed(self, body: dict[str, Any]) -> None:
        answer = await self._gateway.post(f"/v1/sessions/{self.session_id}/succeed", body)
        self._counts.succeeded += not answer["duplicate"]
        self.session_id = answer["successor_id"]

    async def _recorded_sessions(self) -> AsyncIterator[tuple[str, Stated]]:
        """Yield each session of the line that is on record, with what it states."""
        following: str | None = self.session_id
        while following is not None:
            session_id, following = following, None
            stated: Stated = {}
            async for event in self._audit(session_id):
                payload = event["payload"]
                if event["verb"] == "ELIMINATE":
                    stated[payload["observation_id"]] = _statement_bytes(payload)
                elif event["verb"] == "SUCCEED_SESSION":
                    following = payload["successor_id"]
            yield session_id, stated

    async def _audit(self, session_id: str) -> AsyncIterator[dict[str, Any]]:
        query: dict[str, str] = {}
        while True:
            page = await self._gateway.get(f"/v1/sessions/{session_id}/audit", **query)
            for event in page["events"]:
                yield event
            if page["next_since_event_id"] is None:
                return
            query = {"since_event_id": page["next_since_event_id"]}


def _sessions_of_plan(plan: DocketPlan) -> Iterator[_Planned]:
    session = _Planned(str(plan.session_id))
    for step in plan.steps():
        if isinstance(step, Strike):
            session.strikes[step.observation_id] = step
        elif isinstance(step, PlannedSuccession):
            yield session
            held = {name: session.strikes[name] for _, name in step.carried}
            session = _Planned(str(step.successor_id), held, step)
    yield session


def _goes_on(recorded: list[tuple[str, Stated]], planned: list[_Planned]) -> bool:
    """Tell whether the sessions on record are those with which the plan begins."""
    pairs = list(zip(recorded, planned, strict=False))
    *closed, ((_, newest), newest_planned) = pairs
    return (
        len(recorded) <= len(planned)
        and all(session_id == session.session_id for (session_id, _), session in pairs)
        and all(stated == session.statements() for (_, stated), session in closed)
        and newest.items() <= newest_planned.statements().items()
    )


def _statement_bytes(elimination: dict[str, Any]) -> bytes:
    justification = elimination["justification"]
    return canonicalize([sorted(elimination["eliminated"]), justification])
