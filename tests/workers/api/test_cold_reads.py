"""An answer for which the archive was read says so, and one from the database does not (§17.7)."""

import pytest

from kernel.ledger.archive_segment import SEGMENT_ROWS
from kernel.ledger.store.memory import MemoryStore
from tests.kernel.archives import archive_next, collect_next, memory_archive
from tests.kernel.build import create, ledger_on, submit
from tests.workers.api.door import running_door

pytestmark = [pytest.mark.anyio, pytest.mark.spec("§17.7")]

OLD, NEW = create("old", "Note"), create("new", "Note")
LISTS = ("/v1/log?after={after}&limit=2", "/v1/audit/operations?after={after}&limit=2")
OF_AN_OPERATION = (
    "/v1/operations/{id}",
    "/v1/audit/ancestors/{id}",
    "/v1/audit/rollback-preview/{id}",
    "/operations/{id}",
)
FOOTER = "Read for this answer, from the archive too"


@pytest.fixture
async def door():
    ledger, host = ledger_on(MemoryStore())
    ledger.archive = memory_archive()
    submit(ledger, OLD)
    for number in range(SEGMENT_ROWS):
        submit(ledger, create(f"n-{number}", "Note"))
    submit(ledger, NEW)
    assert archive_next(ledger)
    assert collect_next(ledger, host)
    async with running_door(ledger.store, host=host.host) as door:
        door.ledger.archive = ledger.archive
        yield door


async def test_every_answer_says_whether_the_archive_was_read_for_it(door):
    for operation, after, storage in ((OLD, 0, "archive"), (NEW, SEGMENT_ROWS, None)):
        named = {"id": operation["operation_id"], "after": after}
        # Twice: what a process keeps of the archive is cold all the same.
        for path in [path.format(**named) for path in (*LISTS, *OF_AN_OPERATION)] * 2:
            answer = await door.http.get(path)
            assert answer.status_code == 200, (path, answer.text)
            assert answer.headers.get("rotulus-storage") == storage, path
            if "text/html" in answer.headers["content-type"]:
                assert (FOOTER in answer.text) == (storage is not None)
        first = after + 1
        for body in (
            {"operation_id": named["id"]},
            {"from_sequence": first, "to_sequence": first},
        ):
            replayed = await door.http.post("/v1/audit/replay", json=body)
            assert replayed.json()["reproduced"] == 1
            assert replayed.headers.get("rotulus-storage") == storage
