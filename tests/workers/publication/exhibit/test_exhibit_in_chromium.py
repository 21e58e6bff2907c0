"""An exhibit verifies itself from a file, in a browser without a network."""

from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.workers.chromium import in_chromium

REGIONS = (
    "<!doctype",
    "default-src",
    "script-src",
    "<style>",
    "<title>",
    "<h1>",
    "<blockquote",
    "data-path",
    'id="fingerprint">',
    'id="verifier">',
    "rotulus-proof",
    "tlog-proof",
    "async function verified",
    "function verifyPage",
    "</html>",
)
"""A text in each part of the file: head, policy, style, statements, proofs, scripts, its end."""

pytestmark = [
    pytest.mark.spec("workers/0490"),
    in_chromium,
]


@pytest.mark.parametrize("name", ["whole", "withheld"])
def test_it_opens_from_a_file_verifies_and_asks_for_nothing(browser, exhibits, tmp_path, name):
    path = tmp_path / "exhibit.html"
    path.write_bytes(exhibits[name])
    page = browser.new_page()
    urls: list[str] = []
    said: list[str] = []
    page.on("request", lambda request: urls.append(request.url))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.on("console", lambda message: said.append(message.text))
    page.goto(path.as_uri())
    expect(page.locator("#verdict")).to_have_class("holds")
    expect(page.locator("#verdict")).to_contain_text("1 of 1 keys")
    assert page.locator(".differs").count() == 0
    assert page.locator(".proved").count() == page.locator("[data-proof], [data-words]").count() > 5
    page.locator("#file").set_input_files(path)
    expect(page.locator("#of-file")).to_contain_text("byte for byte")
    assert urls == [path.as_uri()]
    assert said == []
    axe = Axe().run(page)
    assert axe.violations_count == 0, axe.generate_report()
    page.close()


def test_a_change_anywhere_is_said(browser, exhibits, tmp_path: Path):
    """What the parser of a page reads alike (the case of a tag) is found in the file's bytes."""
    content = exhibits["whole"]
    path = tmp_path / "exhibit.html"
    page = browser.new_page()
    for region in REGIONS:
        place = content.index(region.encode()) + len(region) - 1
        changed = bytes([content[place] ^ 1])
        path.write_bytes(content[:place] + changed + content[place + 1 :])
        page.goto(path.as_uri())
        verdict = page.locator("#verdict")
        if verdict.count() == 0 or verdict.get_attribute("class") != "holds":
            continue
        page.wait_for_timeout(200)
        if verdict.get_attribute("class") == "holds":
            page.locator("#file").set_input_files(path)
            expect(page.locator("#of-file")).to_contain_text("was changed")
    page.close()


def test_words_that_were_changed_are_pointed_at(browser, exhibits, tmp_path: Path):
    path = tmp_path / "exhibit.html"
    text = exhibits["whole"].decode().replace("<mark>DENIED</mark>", "<mark>GRANTED</mark>")
    path.write_text(text)
    page = browser.new_page()
    page.goto(path.as_uri())
    expect(page.locator("#verdict")).to_have_class("fails")
    expect(page.locator("blockquote.differs mark")).to_have_text("GRANTED")
    page.close()
