"""Verifies the page of an exhibit without a browser and without a ledger."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any, TypedDict

import orjson

from kernel.proof.proof_file import ProofFileInvalid, verify_proof_file
from kernel.proof.verification import ProofInvalid
from kernel.values.misleading import visible
from kernel.values.untrusted import text_of
from workers.publication.exhibit.markup import VOID
from workers.publication.exhibit.page import FORMAT, fingerprint

_SHOWN = re.compile(r'<code id="fingerprint">([0-9a-f]*)</code>')


class ExhibitVerdict(TypedDict):
    """What the verification of an exhibit found; `problems` is empty where it holds."""

    verifies: bool
    fingerprint: str
    tree_head: str | None
    proofs: int
    texts: int
    problems: list[str]


def verify_exhibit(content: bytes, vkeys: Sequence[str]) -> ExhibitVerdict:
    """Return what a page is worth under the keys of a log, each of which must have signed.

    Raises:
        ProofInvalid: this is no exhibit.
    """
    text = content.decode(errors="replace")
    page = _Page()
    page.feed(text)
    try:
        data = orjson.loads(page.data)
        is_exhibit = data["format"] == FORMAT
        proofs = [(str(proof["id"]), str(proof["content"])) for proof in data["proofs"]]
    except (ValueError, TypeError, KeyError) as error:
        raise ProofInvalid(f"this is no exhibit: {error}") from None
    if not is_exhibit:
        raise ProofInvalid(f"the format is not {FORMAT}")
    problems = []
    stated = _SHOWN.search(text)
    if stated is None or stated[1] != fingerprint(text):
        problems.append("the page was changed after it was written: its fingerprint is another one")
    proved: list[Any] = []
    for record_id, proof in proofs:
        try:
            proved.append(verify_proof_file(proof.encode(), *vkeys))
        except ProofFileInvalid as error:
            proved.append({})
            problems.append(f"the proof of {record_id} does not hold: {error}")
    problems += [
        f"{claim.text[:80]!r} is not what was proved"
        for claim in page.claims
        if not _holds(claim, proved)
    ]
    heads = {str(each.get("tree_head")) for each in proved}
    if len(heads) != 1:
        problems.append("the proofs are not of one checkpoint")
    return {
        "verifies": not problems,
        "fingerprint": fingerprint(text),
        "tree_head": heads.pop() if len(heads) == 1 else None,
        "proofs": len(proofs),
        "texts": len(page.claims),
        "problems": problems,
    }


@dataclass(slots=True)
class _Claim:
    """A text of the page that says of itself that it is in the log."""

    name: str
    attributes: dict[str, str]
    text: str = ""


class _Page(HTMLParser):
    """Reads the data of a page, and each text that it says is in the log."""

    def __init__(self) -> None:
        super().__init__()
        self.data = ""
        self.claims: list[_Claim] = []
        self._open: list[_Claim | None] = []
        self._in_data = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        stated = {name: value or "" for name, value in attrs}
        self._in_data = tag == "script" and stated.get("id") == "exhibit"
        if tag in VOID:
            return
        claim = None
        if "data-proof" in stated or "data-words" in stated:
            claim = _Claim(tag, stated)
            self.claims.append(claim)
        self._open.append(claim)

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002 - as the library calls it
        self._in_data = False
        if self._open:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if self._in_data:
            self.data += data
        for claim in self._open:
            if claim is not None:
                claim.text += data


def _holds(claim: _Claim, proved: list[Any]) -> bool:
    stated = claim.attributes
    try:
        if "data-proof" in stated:
            value = proved[int(stated["data-proof"])]
            for name in stated["data-path"].split("."):
                value = value[name]
            shown = " ".join(map(str, value)) if isinstance(value, list) else str(value)
            return visible(shown) == claim.text
        envelope = proved[int(stated["data-words"])]["envelope"]
        start, length = int(stated["data-offset"]), int(stated["data-length"])
    except (LookupError, TypeError, ValueError):
        return False
    if start < 0 or length < 0:
        return False
    return any(visible(text[start : start + length]) == claim.text for text in _texts(envelope))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield text_of(value)
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
