"""Each check finds what it is there for, in a record that is whole but for that."""

from dataclasses import replace

import pytest

from actors.sharding.assignment import shard_of
from tests.chaos import judge as j
from tests.chaos.availability import bounds, silences, takeover_times
from tests.chaos.fleet import FleetProcess
from tests.chaos.load import STATES, session_of
from tests.chaos.run import ends
from tests.chaos.schedule import Fault
from tests.system.tree_run import wait_for

SESSION = session_of(0)
SHARD = str(shard_of(SESSION, 64))
ANSWERS = [
    {"kind": "declared", "session": SESSION},
    *(
        {
            "kind": "operated",
            "intent_key": f"key-{number}",
            "node": node,
            "intent": intent,
            "operation": f"op-{number}",
            "row_hash": f"hash-{number}",
        }
        for number, (node, intent) in enumerate(
            [("source", "create_source"), ("cu", "synthesize_cu"), ("source", "field_adapt")], 1
        )
    ),
    *({"kind": "eliminated", "session": SESSION, "observation": f"o-{n}"} for n in range(3)),
    *(
        {"kind": "requested", "request": f"step-{number}", "queue": "extraction"}
        for number in range(1, len(STATES))
    ),
    {"kind": "requested", "request": "binding", "queue": "binding"},
    {"kind": "watched", "artifact": "paper", "bindings": ["watch"]},
    {"kind": "refused", "node": "once", "code": "session_busy"},
]
REQUESTS = [answer["request"] for answer in ANSWERS if answer["kind"] == "requested"]
SUSPENDED = j.ManifestRow(
    "m-1", "event", 1, [("outcome:binding", "watch", "paper", "pending", "binding_suspended")]
)
ENDED = j.ManifestRow(
    "m-2", "event", 2, [("outcome:binding", "watch", "paper", "succeeded", "binding_fired")]
)
WHOLE = j.Record(
    log=[
        j.LogRow(1, "op-1", "create", "0" * 64, "hash-1"),
        j.LogRow(2, "op-2", "create", "hash-1", "hash-2"),
        j.LogRow(3, "op-3", "field_adapt", "hash-2", "hash-3"),
        j.LogRow(4, "op-4", "recalculate_authority", "hash-3", "hash-4"),
    ],
    requests=dict.fromkeys(REQUESTS, 0),
    outcomes=[(request, "completed") for request in REQUESTS],
    writes=[("source", "op-1"), ("cu", "op-2"), ("source", "op-3"), ("cu", "op-4")],
    trails={SESSION: ["o-0", "o-1", "o-2"]},
    attempts={"run": list(enumerate(STATES[1:], start=1))},
    evaluations=["binding"],
    manifests=[SUSPENDED, ENDED],
    fires=[("watch", "event", "m-2")],
    memberships=["watched|paper"],
    notes=[
        ("shard", SHARD, ""),
        ("shard", SHARD, "a"),
        *[("belief_events", SESSION, "gateway_a")] * 3,
        ("shard", SHARD, "b"),
        ("kernel_event_log", SESSION, "gateway_b"),
    ],
    authorities_equal=1,
    authorities_pending=0,
    findings=[],
)
STEPS = WHOLE.attempts["run"]
LOG = WHOLE.log

BROKEN = [
    (j.one_outcome_for_each_request, {"outcomes": WHOLE.outcomes[1:]}),
    (j.one_outcome_for_each_request, {"outcomes": [*WHOLE.outcomes, ("binding", "cancelled")]}),
    (j.one_outcome_for_each_request, {"outcomes": [*WHOLE.outcomes, ("other", "completed")]}),
    (j.one_outcome_for_each_request, {"requests": {**WHOLE.requests, "binding": 1}}),
    (j.nothing_given_up, {"outcomes": [*WHOLE.outcomes[:-1], ("binding", "dead_letter")]}),
    (j.every_answer_on_record, {"log": LOG[:2]}),
    (j.every_answer_on_record, {"log": [*LOG[:3], replace(LOG[3], operation="op-1")]}),
    (j.every_answer_on_record, {"requests": {}}),
    (j.every_answer_on_record, {"trails": {SESSION: ["o-0", "o-1"]}}),
    (j.every_answer_on_record, {"trails": {}}),
    (j.nothing_of_what_was_refused, {"writes": [*WHOLE.writes, ("once", "op-4")]}),
    (j.no_effect_twice, {"log": [*LOG, replace(LOG[0], sequence=5)]}),
    (j.no_effect_twice, {"writes": WHOLE.writes[1:]}),
    (
        j.no_effect_twice,
        {
            "log": [*LOG, j.LogRow(5, "op-5", "field_adapt", "hash-4", "hash-5")],
            "writes": [*WHOLE.writes, ("source", "op-5")],
        },
    ),
    (j.no_effect_twice, {"trails": {SESSION: ["o-0", "o-1", "o-2", "o-1"]}}),
    (j.no_effect_twice, {"attempts": {"run": [*STEPS, STEPS[0]]}}),
    (j.sessions_in_order, {"trails": {SESSION: ["o-1", "o-0", "o-2"]}}),
    (j.sessions_in_order, {"trails": {SESSION: ["o-0", "o-1", "o-2", "o-9"]}}),
    (j.no_stale_write, {"notes": [*WHOLE.notes, ("belief_events", SESSION, "gateway_a")]}),
    (j.no_stale_write, {"notes": WHOLE.notes[2:]}),
    (j.no_stale_write, {"notes": WHOLE.notes[:3]}),
    (j.one_chain, {"log": LOG[1:]}),
    (j.one_chain, {"log": [LOG[0], replace(LOG[1], prior_row_hash="other"), *LOG[2:]]}),
    (j.one_chain, {"log": [*LOG[:3], replace(LOG[3], sequence=5)]}),
    (j.one_chain, {"findings": ["nodes source: bytes_changed"]}),
    (j.authorities_from_scratch, {"authorities_equal": 0}),
    (j.authorities_from_scratch, {"authorities_pending": 1}),
    (j.extractions_in_order, {"attempts": {"run": [STEPS[1], STEPS[0], *STEPS[2:]]}}),
    (j.extractions_in_order, {"attempts": {"run": STEPS[:-1]}}),
    (j.extractions_in_order, {"attempts": {}}),
    (j.one_manifest_for_each_cycle, {"manifests": [SUSPENDED, ENDED, ENDED]}),
    (
        j.one_manifest_for_each_cycle,
        {"manifests": [SUSPENDED, ENDED, replace(ENDED, manifest_id="m-3")]},
    ),
    (j.one_manifest_for_each_cycle, {"manifests": [ENDED]}),
    (j.one_manifest_for_each_cycle, {"manifests": [ENDED, SUSPENDED]}),
    (j.one_manifest_for_each_cycle, {"manifests": []}),
    (j.one_outcome_for_each_binding, {"manifests": [SUSPENDED]}),
    (j.one_outcome_for_each_binding, {"manifests": [SUSPENDED, replace(ENDED, outcomes=[])]}),
    (
        j.one_outcome_for_each_binding,
        {"manifests": [SUSPENDED, replace(ENDED, outcomes=[*ENDED.outcomes] * 2)]},
    ),
    (
        j.one_outcome_for_each_binding,
        {
            "manifests": [
                SUSPENDED,
                replace(ENDED, outcomes=[(*ENDED.outcomes[0][:4], "binding_no_match")]),
            ]
        },
    ),
    (j.one_outcome_for_each_binding, {"evaluations": ["binding", "forgotten"]}),
    (j.nothing_fires_twice, {"fires": [*WHOLE.fires] * 2}),
    (j.nothing_fires_twice, {"fires": []}),
    (j.nothing_fires_twice, {"fires": [*WHOLE.fires, ("watch", "event", "m-1")]}),
    (j.nothing_fires_twice, {"fires": [("watch", "event", "m-1")]}),
    (j.nothing_fires_twice, {"memberships": [*WHOLE.memberships] * 2}),
    (
        j.nothing_fires_twice,
        {"manifests": [SUSPENDED, replace(ENDED, outcomes=[*ENDED.outcomes] * 2)]},
    ),
]


def test_a_whole_record_is_found_whole():
    assert j.judge(WHOLE, ANSWERS) == {}


@pytest.mark.parametrize(
    ("check", "changes"), BROKEN, ids=[f"{check.__name__}-{list(c)}" for check, c in BROKEN]
)
def test_a_check_finds_what_is_broken(check, changes):
    verdict = j.judge(replace(WHOLE, **changes), ANSWERS)
    assert verdict.get(check.__name__)


def test_an_intent_that_was_answered_with_two_operations_is_found():
    other = {**ANSWERS[1], "operation": "op-2", "row_hash": "hash-2"}
    verdict = j.judge(WHOLE, [*ANSWERS, other])
    assert set(verdict) == {"no_effect_twice"}


def test_every_check_has_a_record_that_it_finds_broken():
    assert {check for check, _ in BROKEN} == set(j.CHECKS)


def test_a_process_that_ends_by_itself_is_wrong_whatever_comes_of_the_record(tmp_path):
    sound, broken = (
        FleetProcess(name, "timeit", {}, tmp_path, ["-n1", "-r1", code])
        for name, code in (
            ("sound", "import time; time.sleep(60)"),
            ("broken", "import os; print('what it said last', flush=True); os._exit(70)"),
        )
    )
    for process in (sound, broken):
        process.start()
    try:
        wait_for("its end", broken.note_end, 20.0)
        [(rule, [ending])] = ends([sound, broken]).items()
    finally:
        sound.kill()
    assert "ended by itself" in rule
    assert "broken" in ending
    assert "70" in ending
    assert "what it said last" in ending
    assert ends([sound]) == {}


def test_silence_is_the_longest_time_in_which_somebody_waits_and_nobody_is_answered():
    faults = [Fault(10.0, "cut_redis", "", 1.0), Fault(20.0, "kill_gateway", "a", 1.0)]
    waits_s = [
        (100.0, 101.0),
        (101.0, 109.5),  # somebody waits all the time, and another one is answered meanwhile
        (104.0, 105.0),
        (113.0, 116.0),  # nobody waits before 113
        (121.0, 122.0),
        (114.0, 128.0),
    ]
    assert silences(faults, 100.0, waits_s) == {
        "kill_gateway": 6.0,
        "before any": 4.5,
        "cut_redis": 3.0,
    }


def test_a_takeover_is_the_time_until_others_have_the_shards_of_a_gateway():
    faults = [
        Fault(10.0, "kill_gateway", "a", 1.0),
        Fault(20.0, "pause_gateway", "b", 3.0),
        Fault(30.0, "flush_redis", "", 1.0),
    ]
    owners = [
        (0.5, "1", "a"),
        (0.5, "2", "a"),
        (0.5, "3", "b"),
        (11.0, "3", "b"),  # it takes what it had before
        (12.5, "1", "b"),
        (13.0, "2", ""),  # released
        (13.5, "2", "b"),
        (22.0, "1", "a"),
        (31.0, "2", "a"),  # no fault of a gateway
    ]
    takeover_s = takeover_times(faults, owners)
    assert takeover_s == {"kill_gateway": 3.5, "pause_gateway": 2.0}
    stated = bounds({"flush_redis": 4.0}, takeover_s, [("r", "completed"), ("s", "dead_letter")])
    assert {name: row["was"] for name, row in stated.items()} == {
        "longest silence, s": 4.0,
        "dead letters": 1,
        "takeover after a kill, s": 3.5,
        "takeover after a pause, s": 2.0,
    }
