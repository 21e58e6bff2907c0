"""Hostile requests from a seed: a legal request, spoiled in one or two places, as bytes.

A request is a function of its seed and number. What is spoiled is one of these: the values of the
body, its text, its bytes, a value of the target, the head, or how the bytes get onto the
connection.
"""

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, Final

from tests.fuzz.legal import HOSTILE_BASES
from tests.fuzz.legal_request import SHARED, LegalRequest, Names
from tests.fuzz.odd_heads import connection_spoiled, head_spoiled
from tests.fuzz.odd_targets import target_spoiled
from tests.fuzz.odd_values import (
    ODD_NAMES,
    ODD_VALUES,
    PLACE,
    deep,
    long_list,
    odd_text,
    odd_token,
    odd_value,
    places_of,
)
from tests.fuzz.shot import Shot, bytes_of, shot_of, text_of

BIG_EACH: Final = 400
"""One request in so many is as large as a body may be, so that the bytes of a run stay bounded."""

BIG_BYTES: Final = (8 << 20) - 4096


def legal_shot(request: LegalRequest) -> Shot:
    body = None if request.body is None else text_of(request.body)
    return Shot(request.route, "legal", "ask", bytes_of(request, body), legal=request.statuses)


def hostile_shot(seed: int, number: int) -> Shot:
    chance = Random(f"hostile {seed} {number}")
    names = Names(f"x-{seed}-{number}", chance.choice(SHARED), chance)
    [build] = chance.choices(list(HOSTILE_BASES), list(HOSTILE_BASES.values()))
    request = build(names)
    # What is spoiled is nobody else's.
    request = replace(request, body=copy.deepcopy(request.body))
    if number % BIG_EACH == BIG_EACH - 1:
        return _big(request, chance)
    [spoil] = chance.choices(
        [spoiler for spoiler, _ in _SPOILERS], [weight for _, weight in _SPOILERS]
    )
    return spoil(request, chance)


def _spoil_values(body: Any, chance: Random) -> str:
    """Change a document in one or two places, and say how."""
    done = []
    for _ in range(chance.choice((1, 1, 2))):
        places = list(places_of(body))
        if not places:
            break
        container, key = chance.choice(places)
        how = chance.choice(
            ("value", "value", "value", "value", "gone", "more", "elsewhere", "twin")
        )
        if how == "value":
            container[key] = odd_value(chance, container[key])
        elif how == "gone":
            del container[key]
        elif how == "more" and isinstance(container, dict):
            container[chance.choice(ODD_NAMES)] = copy.deepcopy(chance.choice(ODD_VALUES))
        elif how == "elsewhere":
            other, place = chance.choice(places)
            container[key] = json.loads(json.dumps(other[place]))
        elif isinstance(container, list):
            container.append(container[key])
        done.append(f"{how} {str(key)[:40]!a}")
    return ", ".join(done)


def _values(request: LegalRequest, chance: Random) -> Shot:
    if not request.body:
        return target_spoiled(request, chance)
    how = _spoil_values(request.body, chance)
    return shot_of(request, text_of(request.body), how)


# Text and bytes


def _texts(request: LegalRequest, chance: Random) -> Shot:
    if not request.body:
        return head_spoiled(request, chance)
    how = chance.choice(("token", "token", "twice", "deep", "long", "whole"))
    if how == "whole":
        return shot_of(request, odd_text(chance).encode("utf-8", "surrogatepass"), how)
    if how == "twice":
        key, value = chance.choice(list(request.body.items()))
        odd = chance.choice((json.dumps(value), json.dumps(chance.choice(ODD_VALUES)), "{}"))
        text = f"{{{json.dumps(key)}:{odd},{json.dumps(request.body)[1:]}"
    else:
        container, key = chance.choice(list(places_of(request.body)))
        container[key] = PLACE
        odd = {"token": odd_token, "deep": deep, "long": long_list}[how](chance)
        text = json.dumps(request.body).replace(json.dumps(PLACE), odd)
    return shot_of(request, text.encode("utf-8", "surrogatepass"), f"text {how}")


def broken_at(content: bytes, cut: int) -> list[bytes]:
    """The bytes cut short, with bytes between them that are no UTF-8, or in another encoding."""
    return [
        content[:cut],
        content[:cut] + b"\xff\xfe" + content[cut:],
        content[:cut] + b"\xed\xa0\x80" + content[cut:],
        content[:cut] + b"\x00" + content[cut:],
        content + content[:cut],
        b"\xef\xbb\xbf" + content,
        content.decode(errors="replace").encode("utf-16"),
        content.decode(errors="replace").encode("utf-32-be"),
    ]


def _bytes(request: LegalRequest, chance: Random) -> Shot:
    content = text_of(request.body)
    cut = chance.randrange(len(content) + 1)
    spoilt = chance.choice((*broken_at(content, cut), chance.randbytes(cut), b""))
    return shot_of(request, spoilt, "bytes")


def _big(request: LegalRequest, chance: Random) -> Shot:
    """A body as large as may be, of one of the shapes that cost the most."""
    room = BIG_BYTES
    if request.body and chance.random() < 0.8:
        container, key = chance.choice(list(places_of(request.body)))
        container[key] = PLACE
        text = json.dumps(request.body)
    else:
        text = json.dumps(PLACE)
    item = chance.choice(
        ("{},", "[],", '"",', "1,", '{"a":1},', '"a",', "1.5,", "x", "[", '{"a":', "9")
    )
    if item == "x":
        odd = '"' + "x" * room + '"'
    elif item in ("[", '{"a":', "9"):
        odd = item * (room // len(item))
    else:
        odd = "[" + item * (room // len(item) - 1) + item.rstrip(",") + "]"
    content = text.replace(json.dumps(PLACE), odd).encode()
    shot = shot_of(request, content, f"big {item}")
    return Shot(shot.route, shot.how, "ask", shot.content)


_SPOILERS: Final[tuple[tuple[Callable[[LegalRequest, Random], Shot], int], ...]] = (
    (_values, 60),
    (_texts, 16),
    (_bytes, 6),
    (target_spoiled, 8),
    (head_spoiled, 12),
    (connection_spoiled, 6),
)
