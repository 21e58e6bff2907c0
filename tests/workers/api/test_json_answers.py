"""A long answer, which is written in steps on a thread, is the one that one call writes."""

import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.values import json_text
from kernel.values.json_text import write_in_steps
from tests.workers.api.door import SESSION, Door
from workers.api.json_answers import json_answer

_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(exclude_categories=("Cs",))),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=("Cs",))), inner)
    ),
)


@given(_VALUES, st.integers(0, 4), st.integers(1, 4))
def test_in_steps_the_same_bytes_are_written(value, levels, entries):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_text, "STEP_ENTRIES", entries)
        assert write_in_steps(value, orjson.dumps, levels) == orjson.dumps(value)


@pytest.mark.anyio
async def test_a_long_answer_and_a_short_one_are_json():
    for document in ({"a": 1}, {"a": ["x" * 10] * 20_000}):
        response = await json_answer(document, 201, {"Preference-Applied": "return=minimal"})
        assert (response.status_code, response.media_type) == (201, "application/json")
        assert response.headers["preference-applied"] == "return=minimal"
        assert json.loads(bytes(response.body)) == document


@pytest.mark.anyio
async def test_a_universe_too_long_for_the_loop_is_answered_as_a_short_one_is(door: Door):
    ids = [f"h{number:05d}" for number in range(12_000)]
    declared = await door.declare(SESSION, *reversed(ids), metadata={"case_name": "x" * 20_000})
    assert declared.status_code == 201
    assert declared.json()["snapshot"]["survivors"] == ids
    again = await door.declare(SESSION, *ids, metadata={"case_name": "x" * 20_000})
    assert again.json() == declared.json()
    struck = {"source_id": "s", "observation_id": "o", "eliminated": [*ids[5:], "unknown"]}
    first = (await door.post("eliminate", struck)).json()
    assert (first["applied_eliminated"], first["ignored_eliminated"]) == (ids[5:], ["unknown"])
    minimal = await door.post("eliminate", struck, Prefer="return=minimal")
    assert minimal.headers["preference-applied"] == "return=minimal"
    assert minimal.json()["duplicate"] is True
    assert (await door.http.get(f"/v1/sessions/{SESSION}")).json()["survivors"] == ids[:5]
    page = (await door.http.get(f"/v1/sessions/{SESSION}/audit")).json()
    assert [event["verb"] for event in page["events"]] == ["DECLARE_SESSION", "ELIMINATE"]
    assert page["events"][0]["payload"]["hypotheses"] == ids
