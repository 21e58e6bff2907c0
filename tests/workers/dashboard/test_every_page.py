"""Every page by plain HTTP, in trouble and in peace: headers, text, links, forms and sizes.

The pages are those of the table of routes, with their examples; what they have to be in a browser
is `test_every_page_in_chromium.py`, what they count `test_counts.py`.
"""

import os
import re
from collections.abc import Iterator
from urllib.parse import parse_qs, unquote, urljoin, urlsplit

import httpx
import pytest
from starlette.routing import compile_path

from kernel.values.misleading import MISLEADING
from tests.workers.dashboard.example_pages import EXAMPLES, OVERVIEW, examples, examples_of_peace
from tests.workers.dashboard.page_elements import Form, PageElements, elements_of
from tests.workers.dashboard.served_gateways import AWAY, ServedGateway, client_of, without_redis
from tests.workers.dashboard.test_charts import CHARTS_BYTES_MAX
from workers.dashboard.headers import PAGE
from workers.dashboard.pages import ROUTES
from workers.dashboard.pages.bulk import VERBS as BULK_VERBS
from workers.dashboard.pages.forms import VERBS as QUEUE_VERBS

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"

FIRST_LOAD_BYTES_MAX = 100_000
FIRST_LOAD_REQUESTS_MAX = 8
MARKUP = re.compile(f"<script>alert|<img src=x|{MISLEADING.pattern}")
IMPORTED = re.compile(r"""\bfrom\s*["'](\./[^"']+)["']|\bimport\s*["'](\./[^"']+)["']""")


class Pages:
    """The pages of a gateway, each read once."""

    def __init__(self, served: ServedGateway, http: httpx.Client) -> None:
        self.url, self._http = served.url, http
        self._answers: dict[str, httpx.Response] = {}

    def get(self, path: str) -> httpx.Response:
        if path not in self._answers:
            self._answers[path] = self._http.get(path)
        return self._answers[path]

    def elements(self, path: str) -> PageElements:
        return elements_of(self.get(path).text)

    def target(self, path: str, href: str) -> str:
        """Return where a reference of a page leads, from the root on where it stays with us."""
        return urljoin(f"{self.url}{path}", href).removeprefix(self.url)


@pytest.fixture(scope="module")
def in_trouble(troubled: ServedGateway) -> Iterator[Pages]:
    with client_of(troubled) as http:
        yield Pages(troubled, http)


@pytest.fixture(scope="module")
def in_peace(peaceful: ServedGateway) -> Iterator[Pages]:
    with client_of(peaceful) as http:
        yield Pages(peaceful, http)


def paths_of(served: ServedGateway) -> list[str]:
    """The examples that are pages; others are what somebody downloads."""
    return [example.path for example in examples(served.names) if example.is_page]


def test_each_route_has_an_example():
    routes = {route.path for route in ROUTES if route.method == "GET"} | {OVERVIEW}
    assert set(EXAMPLES) == routes


def test_each_page_is_answered_under_the_exact_policy_and_shows_hostile_text_as_text(
    troubled, in_trouble, in_peace
):
    problems = []
    seen = [(in_trouble, example) for example in examples(troubled.names)]
    seen += [(in_peace, example) for example in examples_of_peace()]
    for pages, example in seen:
        answer = pages.get(example.path)
        if answer.status_code != example.status:
            problems.append(f"{example.path}: {answer.status_code}, not {example.status}")
        if not example.is_page:
            continue
        if misleading := MARKUP.search(answer.text):
            problems.append(f"{example.path}: {around(answer.text, misleading)}")
        for name, value in PAGE.items():
            if answer.headers.get(name) != value:
                problems.append(f"{example.path}: {name}: {answer.headers.get(name)}")
        if inline := elements_of(answer.text).inline:
            problems.append(f"{example.path}: inline {inline}")
    assert not problems, "\n".join(problems)


def shape_of(target: str, fragment: str) -> str:
    """Return what links have in common of which one is followed by day on each page."""
    path, query = urlsplit(target).path, urlsplit(target).query
    matching = (route.path for route in ROUTES if compile_path(route.path)[0].match(path))
    route = next(matching, path)
    return f"{route}?{'&'.join(sorted(parse_qs(query)))}#{re.sub('[0-9]+', '0', fragment)}"


def is_page(answer: httpx.Response) -> bool:
    return answer.headers.get("content-type", "").startswith("text/html")


def around(text: str, match: re.Match[str]) -> str:
    return repr(text[max(0, match.start() - 80) : match.end() + 20])


def test_each_link_leads_somewhere(troubled, in_trouble, in_peace):
    statuses = {example.path: example.status for example in examples(troubled.names)}
    statuses["/exhibit"] = 409
    # A page of the past leads to other pages of the past, which may have been nothing then.
    paths = [path for path in paths_of(troubled) if "at=" not in urlsplit(path).query]
    problems = broken_links(in_trouble, paths, statuses)
    problems += broken_links(in_peace, [example.path for example in examples_of_peace()], {})
    assert not problems, "\n".join(problems)


def broken_links(pages: Pages, paths: list[str], statuses: dict[str, int]) -> list[str]:
    problems, followed = [], set[tuple[str, str]]()
    for path in paths:
        elements, shapes = pages.elements(path), set[str]()
        if twice := {each for each in elements.ids if elements.ids.count(each) > 1}:
            problems.append(f"{path}: ids that stand twice: {sorted(twice)}")
        for href in elements.links:
            target, _, fragment = pages.target(path, href).partition("#")
            if not target.startswith("/"):
                problems.append(f"{path}: {href} leads away")
                continue
            if (target, fragment) in followed or (target == path and not fragment):
                continue
            shape = shape_of(target, fragment)
            if shape in shapes and not NIGHTLY:
                continue
            shapes.add(shape)
            followed.add((target, fragment))
            answer = pages.get(target)
            known = statuses.get(target, statuses.get(urlsplit(target).path))
            if target != path and answer.status_code not in (200, 303, known):
                problems.append(f"{path}: {href} is answered {answer.status_code}")
            elif misleading := MARKUP.search(answer.text if is_page(answer) else ""):
                problems.append(f"{target}: {around(answer.text, misleading)}")
            elif fragment and unquote(fragment) not in pages.elements(target).ids:
                problems.append(f"{path}: {href} has no such part")
    return problems


def test_a_first_load_is_small(troubled, in_trouble):
    problems = []
    for path in paths_of(troubled):
        loaded, is_live = everything_loaded(in_trouble, path)
        size = sum(len(in_trouble.get(each).content) for each in loaded)
        if path == OVERVIEW:
            size += CHARTS_BYTES_MAX - len(charts_of(in_trouble.get(path).text).encode())
        if len(loaded) + is_live > FIRST_LOAD_REQUESTS_MAX or size > FIRST_LOAD_BYTES_MAX:
            problems.append(f"{path}: {size} bytes, {len(loaded)} requests")
    assert not problems, "\n".join(problems)


def charts_of(html: str) -> str:
    """Return the charts of an overview, which fill up only as time goes by."""
    [charts] = re.findall(r'<section aria-labelledby="charts">.*?</section>', html, re.DOTALL)
    return str(charts)


def everything_loaded(pages: Pages, path: str) -> tuple[list[str], bool]:
    """A page, its files, what its modules import and its worker; and whether it has a stream."""
    html = pages.get(path).text
    loaded = [path]
    named = pages.elements(path).loaded
    named += re.findall(r'data-hub="([^"]+)"', html)
    waiting = [pages.target(path, each) for each in named]
    while waiting:
        target = waiting.pop()
        if target in loaded:
            continue
        loaded.append(target)
        if target.endswith(".js"):
            imported = (a or b for a, b in IMPORTED.findall(pages.get(target).text))
            waiting += [pages.target(target, each) for each in imported]
    return loaded, 'data-events="' in html


CANNOT_BE_FOUND = {"/bulk-operations/{bulk_number}/stop", "/login", "/logout"}
"""Forms of what is over sooner than a page is read (`test_bulk_pages.py` posts them), and of access
that takes keys (`tests/workers/api/test_access.py`)."""

WHO, WHY = "ada", "because <b>it</b> is so"


def test_each_action_is_on_the_record_with_who_and_why(troubled):
    posted: set[tuple[str, str]] = set()
    problems = []
    with client_of(troubled) as http:
        for path in paths_of(troubled):
            while (form := next_form(http.get(path), posted)) is not None:
                posted.add(what_is_done(form))
                problems += [
                    f"{path}: {form.action}: {each}" for each in post(troubled, http, path, form)
                ]
    assert not problems, "\n".join(problems)
    reached = {route.path for route in ROUTES if route.method == "POST"} - CANNOT_BE_FOUND
    assert {route for route, _ in posted} >= reached
    for route, verbs in (("/queues/{queue}/{verb}", QUEUE_VERBS), ("/bulk-operations", BULK_VERBS)):
        assert {said.split()[0] for path, said in posted if path == route} == verbs.keys()


def next_form(page: httpx.Response, posted: set[tuple[str, str]]) -> Form | None:
    """Return the first form of a page that does what was not done yet."""
    forms = (form for form in elements_of(page.text).forms if form.method == "post")
    return next((form for form in forms if what_is_done(form) not in posted), None)


def what_is_done(form: Form) -> tuple[str, str]:
    """Return the route of a form's action, and the verb that it says."""
    path = "/" + urlsplit(form.action).path.lstrip("./")
    for route in ROUTES:
        matched = compile_path(route.path)[0].match(path) if route.method == "POST" else None
        if matched is not None:
            said = {**matched.groupdict(), **form.fields}
            return route.path, " ".join(said.get(each, "") for each in ("verb", "decision", "kind"))
    return path, "leads nowhere"


def post(served: ServedGateway, http: httpx.Client, path: str, form: Form) -> Iterator[str]:
    """Send a form as a browser does, and yield what is wrong with its answer and the record."""
    stated = {"name": WHO, "reason": WHY, "typed": form.fields.get("counted", "")}
    empty = {name: stated.get(name, form.fields[name] or "words") for name in form.asked}
    [before] = served.sql(LENGTHS)
    origin = {"Origin": served.url}
    target = urljoin(f"{served.url}{path}", form.action)
    answer = http.post(target, data={**form.fields, **empty}, headers=origin)
    if answer.status_code != 303:
        yield f"{answer.status_code} {elements_of(answer.text).text.split('Rotulus')[-1][:300]!r}"
        return
    if http.get(urljoin(target, answer.headers["location"])).status_code != 200:
        yield f"leads to {answer.headers['location']}"
    said = served.sql(SAID_SINCE, *before)
    if not said:
        yield "left nothing on the record"
    for name in {"name", "reason"} & {*form.asked}:
        if not any(stated[name].encode() in content for (content,) in said):
            yield f"the record does not say the {name}"


LENGTHS = """
    SELECT (SELECT MAX(ec_sequence_number) FROM kernel_event_log),
           (SELECT MAX(receipt_sequence) FROM receipts),
           (SELECT MAX(rowid) FROM blobs)
"""
SAID_SINCE = """
    SELECT row_bytes FROM kernel_event_log WHERE ec_sequence_number > ?
    UNION ALL SELECT receipt_bytes FROM receipts WHERE receipt_sequence > ?
    UNION ALL SELECT content FROM blobs WHERE rowid > ?
"""


WITHOUT_REDIS = 503
"""The status of a page that shows what only Redis knows."""


def test_without_redis_each_page_is_a_page_that_says_what_is_away_and_since_when(troubled):
    problems = []
    with without_redis(troubled), client_of(troubled) as http:
        for example in examples(troubled.names):
            answer = http.get(example.path)
            if answer.status_code not in (example.status, WITHOUT_REDIS):
                problems.append(f"{example.path}: {answer.status_code}")
            if not example.is_page:
                continue
            if "<h1" not in answer.text or elements_of(answer.text).inline:
                problems.append(f"{example.path}: no page: {answer.text[:80]}")
            _, _, behind = answer.text.replace("<wbr>", "").partition(AWAY)
            if "<time" not in behind[:600]:
                problems.append(f"{example.path}: it does not say what is away since when")
            if not PAGE.items() <= {each: answer.headers.get(each) for each in PAGE}.items():
                problems.append(f"{example.path}: {answer.headers}")
    assert not problems, "\n".join(problems)
