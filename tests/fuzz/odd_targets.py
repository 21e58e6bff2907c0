"""Targets of requests with a value that somebody may not have thought of, in a path or a query.

What is odd is percent-encoded, so the head can be read and an answer has to come.
"""

from dataclasses import replace
from random import Random
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode

from tests.fuzz.legal_request import LegalRequest
from tests.fuzz.odd_values import ODD_VALUES
from tests.fuzz.shot import Shot, bytes_of, text_of

TARGET_BYTES_MAX: Final = 6000
"""What is longer is refused before a route reads it."""

_TEXTS: Final = tuple(
    text
    for value in ODD_VALUES
    if isinstance(value, (str, int, float))
    if len(text := str(value)) <= TARGET_BYTES_MAX // 12
)


def target_spoiled(request: LegalRequest, chance: Random) -> Shot:
    """Put an odd value in the place of one of the target's."""
    path, _, query = request.path.partition("?")
    odd = chance.choice(_TEXTS)
    parameters = parse_qsl(query, keep_blank_values=True)
    if parameters and chance.random() < 0.7:
        place = chance.randrange(len(parameters))
        name = parameters[place][0]
        how = chance.choice(("value", "value", "value", "twice", "gone", "more"))
        if how == "value":
            parameters[place] = (name, odd)
        elif how == "gone":
            del parameters[place]
        else:
            parameters.append((name, odd) if how == "twice" else (odd, name))
        query = urlencode(parameters, errors="surrogatepass")
    else:
        segments = path.split("/")
        place, how = chance.randrange(1, len(segments)), "segment"
        name = segments[place]
        segments[place] = quote(odd.encode("utf-8", "surrogatepass"), safe="")
        path = "/".join(segments)
    target = f"{path}?{query}" if query else path
    body = None if request.body is None else text_of(request.body)
    content = bytes_of(replace(request, path=target), body)
    return Shot(request.route, f"{how} {name[:40]!a}", "ask", content)
