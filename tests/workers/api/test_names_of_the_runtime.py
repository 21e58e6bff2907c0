"""Sessions that the runtime names are nobody else's: no door takes their names."""

import pytest

from tests.kernel.build import create
from tests.workers.api.answer_shapes import DOCUMENT
from tests.workers.api.door import SESSION, Door, error_of, log_length

pytestmark = pytest.mark.anyio

OF_THE_RUNTIME = ("work:extraction-transition:0", "incident:i-1")
"""Sessions of reports and of incidents (`report_sessions.py`, `incidents.py`)."""


async def test_no_door_takes_a_session_of_the_runtimes_own(door: Door):
    await door.declare(SESSION, "a")
    length = log_length(door.ledger)
    routes = [
        (method, path)
        for path, operations in DOCUMENT["paths"].items()
        for method in operations
        if "{session_id}" in path and not path.startswith("/v1/tree/")
    ]
    assert len(routes) > 20
    for name in OF_THE_RUNTIME:
        for method, path in routes:
            url = path.format(session_id=name, obligation_id="o", sequence=1)
            body = None if method == "get" else {}
            error_of(await door.http.request(method, url, json=body), 422, "INVALID_REQUEST")
        succession = {"reason": "r", "carried": [], "successor_id": name}
        error_of(await door.post("succeed", succession), 422, "INVALID_REQUEST")
        declared = await door.http.post("/v1/sessions", json={"session_id": name})
        error_of(declared, 422, "INVALID_REQUEST")
    assert log_length(door.ledger) == length


async def test_an_envelope_is_of_the_session_through_which_it_came(door: Door):
    await door.declare(SESSION, "a")
    stated = create("n-1", "Note") | {"session_id": OF_THE_RUNTIME[0]}
    assert (await door.post("envelopes", stated)).status_code == 200
    operations = (await door.http.get("/v1/audit/operations?order=newest&limit=1")).json()
    assert operations["operations"][0]["session_id"] == SESSION
