"""Every page in the system's Chromium, at three widths and in both themes, in trouble and in peace.

By day two pages of each route are seen at the outer widths and in each theme, and axe looks once at
the first of them, at the first rows of a table; by night each page is seen at each width in each
theme, and axe looks at everything.
"""

import os
from collections import defaultdict
from collections.abc import Collection
from itertools import product

import pytest

from tests.workers.chromium import in_chromium
from tests.workers.dashboard.example_pages import OVERVIEW, examples, examples_of_peace
from tests.workers.dashboard.page_elements import elements_of
from tests.workers.dashboard.page_in_browser import (
    ROWS_ALIKE,
    axe_problems,
    layout_problems,
    watched_page,
)
from tests.workers.dashboard.served_gateways import ServedGateway, client_of, without_redis

pytestmark = [in_chromium, pytest.mark.slow, pytest.mark.timeout(300)]

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
WIDTHS = (1440, 800, 390) if NIGHTLY else (1440, 390)
THEMES = ("light", "dark")
HEIGHT = 900
REFUSALS_SEEN = 2
"""How many pages that say no are seen by day: they are all alike."""

EACH_ROUTE_SEEN = 2
"""How many of its pages that are answered are seen by day."""


def looks_at(number: int) -> list[tuple[int, str]]:
    """Return the widths and themes of a page: by day each once, with the other by its number."""
    if NIGHTLY:
        return [*product(WIDTHS, THEMES)]
    return [(width, THEMES[(number + place) % 2]) for place, width in enumerate(WIDTHS)]


def problems_of(
    browser, served: ServedGateway, paths: list[str], by_axe: Collection[str]
) -> list[str]:
    """Return what is wrong with pages, each loaded once and then looked at in each way.

    By day axe looks at those of `by_axe` alone.
    """
    pages_with = defaultdict[str, list[str]](list)
    viewport = {"width": WIDTHS[0], "height": HEIGHT}
    with watched_page(browser, served.url, viewport=viewport) as (page, met):
        for number, path in enumerate(paths):
            page.goto(served.url + path)
            for place, (width, theme) in enumerate(looks_at(number)):
                page.set_viewport_size({"width": width, "height": HEIGHT})
                page.emulate_media(color_scheme=theme)
                met += [f"{width} {each}" for each in layout_problems(page)]
                if NIGHTLY or (path in by_axe and place == number % len(WIDTHS)):
                    violations = axe_problems(page, () if NIGHTLY else ROWS_ALIKE)
                    met += [f"{width} {theme} {each}" for each in violations]
            for each in met:
                pages_with[each].append(path[:60])
            met.clear()
    return [f"{problem}\n    at {', '.join(where)}" for problem, where in pages_with.items()]


def test_in_trouble_each_page_fits_and_axe_finds_nothing(browser, troubled):
    every = [example for example in examples(troubled.names) if example.is_page]
    by_day = examples(troubled.names, EACH_ROUTE_SEEN)
    shown = every if NIGHTLY else [example for example in every if example in by_day]
    paths = [example.path for example in shown if example.status == 200]
    paths += [example.path for example in every if example.status != 200][:REFUSALS_SEEN]
    first = [example.path for example in examples(troubled.names, 1)]
    problems = problems_of(browser, troubled, paths, [*first, *paths[-REFUSALS_SEEN:]])
    assert not problems, "\n".join(problems)


WITHOUT_REDIS = ("/", "/queues", "/queues/pictures", "/requests", "/fleet")
"""Pages that show what Redis knows, or that it does not answer."""


def test_without_redis_each_page_fits_and_axe_finds_nothing(browser, troubled):
    with without_redis(troubled):
        problems = problems_of(browser, troubled, [*WITHOUT_REDIS], WITHOUT_REDIS)
    assert not problems, "\n".join(problems)


def test_in_peace_each_page_fits_and_axe_finds_nothing(browser, peaceful):
    paths = [example.path for example in examples_of_peace()]
    problems = problems_of(browser, peaceful, paths, [OVERVIEW])
    assert not problems, "\n".join(problems)


def test_without_a_script_pages_that_have_one_fit_and_say_what_they_hold(browser, troubled):
    shown = [example.path for example in examples(troubled.names) if example.is_page]
    problems = []
    options = {"viewport": {"width": WIDTHS[-1], "height": HEIGHT}, "java_script_enabled": False}
    with client_of(troubled) as http:
        scripted = [path for path in shown if elements_of(http.get(path).text).has_script]
    with watched_page(browser, troubled.url, **options) as (page, met):
        for path in scripted:
            page.goto(troubled.url + path)
            assert page.locator("h1").count() == 1
            # A tool may evaluate where the page may run no script.
            problems += [f"{path[:80]}: {each}" for each in (*layout_problems(page), *met)]
            met.clear()
    assert scripted
    assert not problems, "\n".join(problems)
