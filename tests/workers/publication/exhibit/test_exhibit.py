"""An exhibit states a decision with its grounds, and a change anywhere in it is found."""

import random
import re
from html.parser import HTMLParser

import pytest

from kernel.ledger.ledger import Ledger
from kernel.proof.verification import ProofInvalid
from kernel.proof.witness_policy import KnownLog, WitnessPolicy
from kernel.values.misleading import MISLEADING
from tests.kernel.build import FakeHost
from tests.signed_log import log_key
from tests.workers.api.door import SESSION, Door, running_door
from tests.workers.publication.exhibit.conftest import (
    KEY,
    SOURCE,
    STRUCK,
    VKEY,
    decide,
    exhibit_of,
    note_of,
)
from workers.publication.exhibit.exhibit import ExhibitRefused
from workers.publication.exhibit.markup import Raw, e, markup
from workers.publication.exhibit.page import fingerprint, page
from workers.publication.exhibit.verification import verify_exhibit

pytestmark = pytest.mark.spec("workers/0490")


def test_what_is_exhibited_verifies_with_its_words_at_their_place(exhibits):
    verdict = verify_exhibit(exhibits["whole"], [VKEY])
    assert verdict["problems"] == []
    assert verdict["verifies"]
    assert verdict["proofs"] >= 2
    text = exhibits["whole"].decode()
    assert "<mark>DENIED</mark>" in text
    assert "alert(1)" in text
    assert "<script>alert" not in text
    assert "<img" not in text
    assert not MISLEADING.search(text)
    assert 'data-path="event.payload.justification.rule">denied &lt;i&gt;<' in text


def test_the_page_needs_nothing_from_elsewhere(exhibits):
    text = exhibits["whole"].decode()
    assert "default-src 'none'" in text
    elements = Elements()
    elements.feed(text)
    assert not elements.names & {"link", "img", "iframe", "a", "form", "object", "base"}
    assert not elements.attributes & {"src", "href", "action", "style", "onerror", "onclick"}


class Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_another_key_a_missing_one_and_another_file_are_refused(exhibits):
    other = log_key(seed=b"o").verifier.vkey
    assert not verify_exhibit(exhibits["whole"], [other])["verifies"]
    for content in (b"", b"<!doctype html><html></html>", b"\xff" * 40):
        with pytest.raises(ProofInvalid):
            verify_exhibit(content, [VKEY])


def test_every_changed_byte_is_found(exhibits):
    whole = exhibits["whole"]
    chance = random.Random(4)
    for place in chance.sample(range(len(whole)), 300):
        flipped = bytes([whole[place] ^ 1 << chance.randrange(8)])
        changed = whole[:place] + flipped + whole[place + 1 :]
        try:
            verdict = verify_exhibit(changed, [VKEY])
        except ProofInvalid:
            continue
        assert not verdict["verifies"], changed[place - 20 : place + 20]


def test_a_statement_that_was_changed_with_its_fingerprint_is_not_what_was_proved(exhibits):
    text = exhibits["whole"].decode()
    forged = text.replace("<mark>DENIED</mark>", "<mark>GRANTED</mark>")
    forged = forged.replace('rule">denied', 'rule">granted')
    slot = re.compile(r'(<code id="fingerprint">)[0-9a-f]*')
    forged = slot.sub(rf"\g<1>{fingerprint(forged)}", forged, count=1)
    verdict = verify_exhibit(forged.encode(), [VKEY])
    assert len(verdict["problems"]) == 2
    assert all("is not what was proved" in problem for problem in verdict["problems"])


def test_what_is_withheld_is_nowhere_in_the_page_and_its_commitment_is(exhibits):
    content = exhibits["withheld"]
    assert verify_exhibit(content, [VKEY])["verifies"]
    for words in ("motion", "grounds", "alert(1)"):
        assert words not in content.decode()
    assert "The words are withheld." in content.decode()
    assert "envelope_payload_blob_ref" in content.decode()


@pytest.mark.anyio
async def test_each_kind_of_thing_that_can_be_explained_can_be_exhibited(door: Door):
    await decide(door)
    for name in (SOURCE, "u-1"):
        assert verify_exhibit_of(door, name)
    operation = exhibit_of(door, SOURCE).steps("operation")[0].named.record_id
    assert verify_exhibit_of(door, operation)
    with pytest.raises(ExhibitRefused) as refused:
        exhibit_of(door, "nobody")
    assert refused.value.code == "exhibit_refused"


class Published:
    """A gateway's published log, always as new as its ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def note(self) -> bytes:
        return self._ledger.read(note_of)

    def policy(self) -> WitnessPolicy:
        return WitnessPolicy(logs=(KnownLog(KEY.verifier, None),))


@pytest.mark.anyio
async def test_the_page_of_an_explanation_hands_its_exhibit_out_as_a_file():
    async with running_door(host=FakeHost().host, publishing=Published) as door:
        await decide(door)
        query = {"id": SESSION, "hypothesis": STRUCK}
        assert "Exhibit</a>" in (await door.http.get("/explain", params=query)).text
        answer = await door.http.get("/exhibit", params=query)
        assert answer.headers["content-disposition"] == 'attachment; filename="exhibit.html"'
        assert verify_exhibit(answer.content, [VKEY])["verifies"]
        unknown = await door.http.get("/exhibit", params={"id": "nobody"})
        assert unknown.status_code == 409
        assert "exhibit_refused" in unknown.text


def verify_exhibit_of(door: Door, name: str) -> bool:
    return verify_exhibit(page(exhibit_of(door, name)), [VKEY])["verifies"]


def test_markup_is_what_a_browser_writes():
    element = e("p", "a<b>&\u00a0\"'", e("br"), Raw("script", (), ("1 < 2",)), class_='"x"')
    expected = '<p class="&quot;x&quot;">a&lt;b&gt;&amp;&nbsp;"\'<br><script>1 < 2</script></p>'
    assert markup(element) == expected
