"""Diagnoses of a server's standbys, by what the server and the role's rights let be seen."""

import pytest

from kernel.ledger.replication import Replication, Standby
from workers.environment.diagnosis import standby_diagnoses

ASYNC = Standby("two", "async", 4096)
SYNC = Standby("two", "sync", 0)
FAR = Standby("far", "async", 10)
UNSEEN = Standby(None, None, None)


def replication(*standbys: Standby, **values: object) -> Replication:
    defaults = {
        "in_recovery": False,
        "standby_names": "",
        "commit": "on",
        "role": "rotulus",
        "may_see": True,
    }
    return Replication(**{**defaults, **values}, standbys=standbys)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seen", "states", "words"),
    [
        (replication(), ["ok"], "no standby"),
        (replication(ASYNC), ["problem"], "two is asynchronous, 4096 bytes behind now"),
        (replication(SYNC, standby_names="two"), ["ok"], "loses nothing"),
        (replication(FAR, SYNC, standby_names="two"), ["note", "ok"], "far is asynchronous"),
        (replication(standby_names="two"), ["problem"], "COMMIT waits for it"),
        (replication(ASYNC, standby_names="one"), ["note", "problem"], "COMMIT waits for it"),
        (replication(SYNC, standby_names="two", commit="local"), ["problem"], "asynchronous"),
        (
            replication(SYNC, standby_names="two", commit="remote_write"),
            ["ok", "note"],
            "a crash of both",
        ),
        (replication(UNSEEN, may_see=False), ["problem"], "a standby is asynchronous"),
        (
            replication(UNSEEN, may_see=False, standby_names="two"),
            ["note"],
            "rotulus may not see whether",
        ),
        (replication(in_recovery=True), ["note"], "is a standby"),
    ],
)
def test_what_a_failover_can_lose_is_said_by_what_can_be_seen(seen, states, words):
    diagnoses = list(standby_diagnoses(seen))
    assert [each.state for each in diagnoses] == states
    assert {each.subject for each in diagnoses} == {"standby"}
    assert words in " | ".join(each.what for each in diagnoses)
    assert all(each.todo for each in diagnoses if each.state == "problem")
