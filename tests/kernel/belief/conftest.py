"""A session with its ids and times counted out, so that a test states only what it is about."""

from itertools import count

import pytest

from kernel.belief.session import BeliefSession
from kernel.belief.terms import OntologyBundle, SessionPolicy

ONTOLOGY = OntologyBundle("space", "v1", "graphstore://postgres-repl", "v17")


class Driver:
    """Calls the verbs of a session with the next event id and time."""

    def __init__(self, hypotheses, *, session_id="s-1", metadata=None, **policy):
        self._numbers = count()
        self.session, self.declared = BeliefSession.declare(
            session_id,
            ONTOLOGY,
            hypotheses,
            metadata=metadata,
            policy=SessionPolicy(**policy),
            **self.next(),
        )

    def next(self):
        number = next(self._numbers)
        return {"event_id": f"e-{number}", "ts": f"2026-02-09T10:00:00.{number:06d}Z"}

    def eliminate(self, observation_id, ids, *, source_id="adapter://sre", why=None, **extra):
        return self.session.eliminate(
            source_id, observation_id, ids, why or {}, **{**self.next(), **extra}
        )

    def enter(self, obligation_id, least, **extra):
        return self.session.enter_obligation(obligation_id, least, **{**self.next(), **extra})

    def leave(self, obligation_id, context=None, **extra):
        return self.session.request_exit(obligation_id, context, **{**self.next(), **extra})

    def conclude(self, conclusion_id, context=None, **extra):
        return self.session.declare_conclusion(conclusion_id, context, **{**self.next(), **extra})

    def end(self, context=None, **extra):
        return self.session.request_termination(context, **{**self.next(), **extra})

    def stored(self):
        return [event.to_bytes() for event in self.session.audit()]

    def everything(self):
        """All that can be read, and what decides later answers."""
        session = self.session
        return (
            session.snapshot(),
            self.stored(),
            session.survivors_hash,
            session.head_event_hash,
            session.core_state(),
            session.take_snapshot(0),
        )


@pytest.fixture(scope="session")
def declare():
    return Driver


@pytest.fixture
def lived(declare):
    """A session in which every verb happened, some of them refused."""
    driver = declare([*"abcdef"], metadata={"who": "Zoë"}, allow_force=True, stability_window=1)
    driver.eliminate("o-1", ["a", "unknown"], why={"p": [1.5, None, {"x": "\U0001f600"}]})
    driver.enter("gate", 2)
    driver.leave("gate", {"asked": 1})
    driver.conclude("early")
    driver.end({"force": True})
    driver.eliminate("o-2", ["c", "b"])
    driver.leave("gate")
    driver.eliminate("o-3", ["b"], source_id="human://m")
    driver.end()
    driver.conclude("done", {"big": 1e20})
    driver.end({"force": True})
    return driver
