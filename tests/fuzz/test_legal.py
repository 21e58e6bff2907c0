"""Which routes the fuzz reaches: every one of the interface and every page, or it says why not."""

import json
import re
from pathlib import Path
from random import Random

from tests.fuzz.legal import HOSTILE_BASES, MUST_SUCCEED, shared_records
from tests.fuzz.legal_reads import READ_ALWAYS, READ_PERHAPS
from tests.fuzz.legal_request import SHARED, THOUGHTS, Names
from workers import api
from workers.dashboard.pages import ROUTES

_FORM = "a form that only a page of the gateway's own origin sends, held by tests/workers/dashboard"

_PROVIDER = "a login by a provider, of which the fleet has none, held by tests/workers/api"

UNREACHED = {
    ("POST", "/queues/{queue}/{verb}"): f"{_FORM}/test_pages.py",
    ("POST", "/reviews/decide"): f"{_FORM}/test_reviews_page.py",
    ("POST", "/operations/{operation_id}/undo"): f"{_FORM}/test_record_pages.py",
    ("POST", "/bulk-operations"): f"{_FORM}/test_bulk_pages.py",
    ("POST", "/bulk-operations/{bulk_number}/stop"): f"{_FORM}/test_bulk_pages.py",
    ("POST", "/login"): f"{_FORM}/test_login_in_chromium.py",
    ("POST", "/logout"): f"{_FORM}/test_login_in_chromium.py",
    ("GET", "/login/provider"): f"{_PROVIDER}/test_provider_login.py",
    ("GET", "/login/provider/answer"): f"{_PROVIDER}/test_provider_login.py",
}
"""Routes that no request of the fuzz begins as, and who holds them instead."""


def routes():
    document = json.loads((Path(api.__file__).parent / "openapi.json").read_text())
    interface = {
        (method.upper(), path) for path, methods in document["paths"].items() for method in methods
    }
    return interface | {(route.method, route.path.replace(":path}", "}")) for route in ROUTES}


def requested():
    """Yield the method and the path of each legal request, however its chances fall."""
    for path in READ_ALWAYS + READ_PERHAPS:
        named = path.replace("SESSION", SHARED[0]).replace("THOUGHTS", THOUGHTS[0])
        yield "GET", named.partition("?")[0]
    for request in shared_records():
        yield request.method, request.path
    for build in (*HOSTILE_BASES, *MUST_SUCCEED):
        request = build(Names("own", SHARED[0], Random("legal")))
        yield request.method, request.path.partition("?")[0]


def route_of(method, path, known):
    """Return the route that a path is of: the one with the fewest names in it."""
    matching = [
        template
        for of_method, template in known
        if of_method == method
        and re.fullmatch(re.sub(r"\\{[a-z_]+\\}", "[^/]+", re.escape(template)), path)
    ]
    return (method, min(matching, key=lambda template: template.count("{"), default=path))


def test_every_route_is_reached_or_it_is_said_why_not():
    known = routes()
    reached = {route_of(method, path, known) for method, path in requested()}
    assert known - reached == set(UNREACHED)


def test_what_is_always_there_needs_no_name_of_a_request():
    assert [path for path in READ_ALWAYS if "OWN" in path] == []
