"""Implications over HTTP: how far detectors have read, what is halted, and letting it go on."""

import anyio.to_thread
import pytest

from kernel.records.implications.loop_limits import CYCLE_EPOCHS_MAX
from tests.kernel.build import accept, create
from tests.kernel.implied import go_round, halt
from tests.workers.api.door import Door, error_of

pytestmark = [pytest.mark.anyio, pytest.mark.spec("INV-A-BRIDGE-1", "§19.1")]


def goes_round(ledger):
    first = accept(ledger, create("n", "Note"))
    go_round(ledger, ["n"], first, CYCLE_EPOCHS_MAX + 1)
    accept(ledger, halt("another"))


async def test_what_is_halted_is_shown_and_goes_on_when_somebody_says_so(door: Door):
    await anyio.to_thread.run_sync(goes_round, door.ledger)
    state = (await door.http.get("/v1/implications")).json()
    [detector] = state["detectors"]
    assert (detector["detector"], detector["implication_epoch"]) == ("echo", CYCLE_EPOCHS_MAX + 1)
    shown = {stands["halt_id"]: stands for stands in state["halts"]}
    loop = next(stands for stands in state["halts"] if stands["target_ref"] == "n")
    assert loop["reason_code"] == "implication_detection_cycle_exceeded"
    assert shown["detector:another"]["error_code"] == "implication_detector_raised"

    for halt_id in shown:
        path = f"/v1/implications/halts/{halt_id}/resume"
        answer = await door.send(path, {"reason": "mended"})
        assert answer.json()["validation_result"] == "accepted", answer.text
        error_of(await door.send(path, {}), 404, "not_found")
    assert (await door.http.get("/v1/implications")).json()["halts"] == []


async def test_halts_come_in_pages(door: Door):
    names = sorted("abc")
    await anyio.to_thread.run_sync(lambda: accept(door.ledger, *(halt(name) for name in names)))
    listed, after = [], ""
    while after is not None:
        page = {"after": after, "limit": 2}
        state = (await door.http.get("/v1/implications", params=page)).json()
        listed += [stands["detector"] for stands in state["halts"]]
        after = state["next_after"]
    assert listed == names
