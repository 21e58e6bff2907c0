"""Whatever a stream holds: an answer for each line, and as much on the record as was accepted."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.error_codes import ERRORS
from kernel.ledger import schema
from kernel.ledger.sqlite.store import SqliteStore
from tests.workers.api.door import SESSION, rows, source, understanding
from tests.workers.api.kept import kept_door
from tests.workers.api.test_fuzz import SPOILT, broken, contents

PATH = f"/v1/sessions/{SESSION}/operations:bulk"
RESULTS = {"accepted", "rejected", "invalid"}
KINDS = [source("NAME", metadata={"m": {"n": 1}}), understanding("NAME", "s-1")]


@pytest.fixture(params=["sqlite", "postgres"])
def store(request, tmp_path):
    """A store of its own for each; nothing of a shared one is changed by the other tests."""
    if request.param == "sqlite":
        store = SqliteStore(tmp_path / "ledger.db")
    else:
        url = request.getfixturevalue("postgres_url")
        store = pytest.importorskip("kernel.ledger.postgres.store").PostgresStore(url)
    yield store
    store.close()


def spoilt(intent: dict[str, Any]) -> st.SearchStrategy[bytes]:
    return contents(intent) | SPOILT.map(str.encode)


def good(intent: dict[str, Any]) -> st.SearchStrategy[bytes]:
    return st.just(json.dumps(intent).encode())


LINES = st.lists(st.sampled_from(KINDS).flatmap(lambda kind: good(kind) | spoilt(kind)), max_size=8)
WHOLE = LINES.map(b"\n".join)
CONTENTS = WHOLE | WHOLE.flatmap(broken)
PIECES = st.lists(st.integers(1, 5000), max_size=20)


def in_pieces(content: bytes, sizes: list[int]):
    start = 0
    for size in sizes:
        yield content[start : start + size]
        start += size
    yield content[start:]


def test_any_line_has_an_answer_and_what_is_accepted_is_on_the_record(store):
    with kept_door(store) as kept:
        taken = []

        @settings(max_examples=settings().max_examples * 2)
        @given(CONTENTS, PIECES)
        def post(content: bytes, sizes: list[int]) -> None:
            fresh = b"\n".join(
                line.replace(b"NAME", b"n-%d-%d" % (len(taken), number))
                for number, line in enumerate(content.split(b"\n"))
            )
            before = len(rows(kept.ledger, schema.kernel_event_log))

            async def pieces():
                for piece in in_pieces(fresh, sizes):
                    yield piece

            response = kept.send("POST", PATH, content=pieces())
            assert response.status_code == 200, response.text
            answers = [json.loads(line) for line in response.content.splitlines()]
            count = fresh.count(b"\n") + (not fresh.endswith(b"\n") and fresh != b"")
            assert [answer["line"] for answer in answers] == list(range(1, count + 1))
            accepted = 0
            for answer in answers:
                if "error" in answer:
                    assert ERRORS[answer["error"]["code"]].fault == "request"
                else:
                    assert answer["result"]["validation_result"] in RESULTS
                    accepted += "ec_sequence_number" in answer["result"]
            assert len(rows(kept.ledger, schema.kernel_event_log)) == before + accepted
            taken.append(accepted)

        post()
        assert any(taken)
