"""A struck hypothesis whose words are hostile to a page, and its exhibit."""

import anyio
import pytest

from kernel.ledger.ledger import LedgerView
from kernel.proof.checkpoint import Checkpoint, sign_checkpoint
from kernel.records.access.readable_view import OF_EVERYTHING, readable_view
from tests.kernel.build import FakeHost
from tests.signed_log import log_key
from tests.workers.api.door import SESSION, Door, running_door, source, understanding
from workers.publication.exhibit.exhibit import Exhibit, gather
from workers.publication.exhibit.page import page

TEXT = (
    'The motion & its "grounds" are\u00a0DENIED.'
    "</script><script>alert(1)</script> <b>\U0001f4dc</b>\u202e\u200b\ufeff"
)
STRUCK = '<img src=x onerror="alert(2)">\u202e\u200b'
SOURCE = "s-1\u202e"
KEY = log_key()
VKEY = KEY.verifier.vkey


def note_of(view: LedgerView) -> bytes:
    """Return the signed checkpoint of the whole log."""
    size = view.head().ec_sequence_number
    stated = Checkpoint(KEY.verifier.name, size, view.log_tree().root(size))
    return sign_checkpoint(stated, [KEY]).to_bytes()


def exhibit_of(door: Door, name: str, hypothesis: str | None = None, **options) -> Exhibit:
    with door.ledger.view() as view:
        note, keys = note_of(view), [KEY.verifier]
        reader = readable_view(view, OF_EVERYTHING)
        return gather(reader, name, hypothesis, note=note, keys=keys, **options)


async def decide(door: Door) -> None:
    """Strike a hypothesis because of a word of a source."""
    await door.declare(SESSION, STRUCK, "lost", "open")
    await door.operate(source(SOURCE, TEXT), understanding("u-1", SOURCE))
    start = TEXT.index("DENIED")
    justification: dict[str, object] = {
        "rule": "denied <i>",
        "reason": "It was denied & ended.",
        "words": "DENIED",
    }
    justification |= {"source_node_id": SOURCE, "offset": start, "length": 6}
    body = {"eliminated": [STRUCK], "observation_id": "o-1", "source_id": SOURCE}
    struck = await door.post("eliminate", body | {"justification": justification})
    assert struck.status_code == 200, struck.text


@pytest.fixture(scope="session")
def exhibits() -> dict[str, bytes]:
    """The page of a struck hypothesis: whole, and with what brought the source withheld."""
    made = {}

    async def make() -> None:
        async with running_door(host=FakeHost().host) as door:
            await decide(door)
            whole = exhibit_of(door, SESSION, STRUCK)
            made["whole"] = page(whole)
            writers = [step.named.record_id for step in whole.steps("operation")]
            made["withheld"] = page(exhibit_of(door, SESSION, STRUCK, withheld=writers))

    anyio.run(make)
    return made
