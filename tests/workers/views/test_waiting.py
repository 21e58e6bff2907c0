"""Why an open request waits: the first thing that keeps it back, in one sentence."""

import pytest

from kernel.work.contents import BINDING_QUEUE
from kernel.work.pauses import Pause
from queues.queue.items import ItemPlace, token_of
from workers.views.waiting import CapacityHolder, RecordedHold, Surroundings, why_waiting

FREE = RecordedHold(BINDING_QUEUE, "background", None)
PAUSED = Pause(BINDING_QUEUE, None, "2026-02-09T10:00:00.000000Z", "ada", "the model changes")


def place(state: str = "ready", **changes):
    stated = {"priority": "background", "state_ends_at_ms": None, "of_top_priority": 0}
    stated |= {"due_before": 0, "attempts": 1, "error": ""}
    return ItemPlace(state=state, **(stated | changes))


def around(item: ItemPlace | None, workers: int = 1, **changes) -> Surroundings:
    return Surroundings(item, workers, **changes)


HOLDERS = [CapacityHolder(f"w-{number}", 1000 * number) for number in range(5)]

DUE = "it is not begun until it is due, at 2026-02-09T11:00:00.000000Z"
EPOCH = "1970-01-01T00"
ENDS = f"its claim ends at {EPOCH}"
FIRST = f"for the first time; {ENDS}:01:05.000000Z"
AWAY = "its session's gateway{} is away"

UNTIL = [f"w-{number}, whose lease ends at {EPOCH}:00:0{number}.000000Z" for number in range(3)]


@pytest.mark.parametrize(
    ("held", "surroundings", "sentence"),
    [
        (
            RecordedHold(BINDING_QUEUE, "background", DUE, (PAUSED,)),
            None,
            DUE,
        ),
        (
            RecordedHold(BINDING_QUEUE, "background", None, (PAUSED,)),
            around(place()),
            "binding-evaluation was paused at 2026-02-09T10:00:00.000000Z by ada",
        ),
        (FREE, None, "Redis does not answer; it is handed on once Redis does"),
        (FREE, around(None), "it is on the record and about to be put into its queue"),
        (
            FREE,
            around(place("in_flight", state_ends_at_ms=5000, attempts=2)),
            f"a worker has it in hand, for the second time; {ENDS}:00:05.000000Z",
        ),
        (
            RecordedHold(BINDING_QUEUE, "background", None, (PAUSED,)),
            around(
                place("in_flight", state_ends_at_ms=65_000, token=token_of("worker-1", 5000, 7))
            ),
            f"worker-10000000 took it in hand at {EPOCH}:00:05.000000Z, {FIRST}",
        ),
        (
            FREE,
            around(place("delayed", state_ends_at_ms=61_000, error="gateway_unavailable")),
            f"it is tried again at {EPOCH}:01:01.000000Z: gateway_unavailable",
        ),
        (
            FREE,
            around(None, away_gateway="gateway-b"),
            f"{AWAY.format(' gateway-b')}; whoever owns it next puts the request into its queue",
        ),
        (
            FREE,
            around(place(), workers=0, away_gateway=""),
            f"{AWAY.format('')}; its result is recorded once another owns the session",
        ),
        (FREE, around(place(), workers=0), "no worker serves binding-evaluation"),
        (
            FREE,
            around(place("suspended", due_before=4)),
            "there was no capacity for it; 4 suspended ones go first",
        ),
        (
            FREE,
            around(place(), full_with=HOLDERS[:2]),
            f"all 2 slots are held, by {'; '.join(UNTIL[:2])}",
        ),
        (
            FREE,
            around(place(), full_with=HOLDERS * 9),
            f"all 45 slots are held, by {'; '.join(UNTIL)} and 42 more",
        ),
        (
            FREE,
            around(place(of_top_priority=2, due_before=7)),
            "2 of the top priority and 7 others go first",
        ),
        (FREE, around(place(due_before=7)), "7 that are due before it go first"),
        (FREE, around(place()), "it is next"),
    ],
)
def test_the_first_thing_that_keeps_a_request_back_is_said(held, surroundings, sentence):
    assert why_waiting(held, surroundings) == sentence
