"""Counts the steps of a backtracking matcher on a pattern, and makes texts that are hard for it.

The matcher tries what Python's `re` tries, in its order, and needs no clock: the same pattern and
text take the same number of steps everywhere. A repetition with an upper bound beyond
`REPEATS_MAX` is taken for one of `REPEATS_MAX`, so that what is linear for long texts is seen on
short ones.
"""

# ruff: noqa: PLR0912, C901 - one case for each instruction

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from re import _constants as c  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

REPEATS_MAX = 3
STEPS_MAX = 400_000
TOO_MANY = 10 * STEPS_MAX
"""What is counted where the matcher was stopped."""


def _is_boundary(text: str, at: int) -> bool:
    def word(x: str) -> bool:
        return x.isalnum() or x == "_"

    before, after = at > 0 and word(text[at - 1]), at < len(text) and word(text[at])
    return before != after


_REPEATS = (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT)
_CATEGORIES: dict[Any, Callable[[str], bool]] = {
    c.CATEGORY_DIGIT: str.isdecimal,
    c.CATEGORY_NOT_DIGIT: lambda x: not x.isdecimal(),
    c.CATEGORY_SPACE: str.isspace,
    c.CATEGORY_NOT_SPACE: lambda x: not x.isspace(),
    c.CATEGORY_WORD: lambda x: x.isalnum() or x == "_",
    c.CATEGORY_NOT_WORD: lambda x: not (x.isalnum() or x == "_"),
}
_PLACES: dict[Any, Callable[[str, int], bool]] = {
    c.AT_BEGINNING: lambda _, at: at == 0,
    c.AT_BEGINNING_STRING: lambda _, at: at == 0,
    c.AT_BEGINNING_LINE: lambda text, at: at == 0 or text[at - 1] == "\n",
    c.AT_END: lambda text, at: at == len(text) or text[at:] == "\n",
    c.AT_END_STRING: lambda text, at: at == len(text),
    c.AT_END_LINE: lambda text, at: at == len(text) or text[at] == "\n",
    c.AT_BOUNDARY: _is_boundary,
    c.AT_NON_BOUNDARY: lambda text, at: not _is_boundary(text, at),
}


@dataclass(frozen=True)
class Uncounted(Exception):
    """A pattern has something that this matcher does not know."""

    operator: str


class _Stopped(Exception):
    """The steps are too many."""


def _one_character(operator: Any, value: Any, flags: int) -> Callable[[str], bool] | None:
    """Return what tells whether a character is matched, None where this is of another kind."""
    folds = bool(flags & re.IGNORECASE)
    if operator is c.ANY:
        return (lambda _: True) if flags & re.DOTALL else (lambda x: x != "\n")
    if operator in (c.LITERAL, c.NOT_LITERAL):
        stated = chr(value)
        same = {stated, stated.lower(), stated.upper()} if folds else {stated}
        return (lambda x: x in same) if operator is c.LITERAL else (lambda x: x not in same)
    if operator is not c.IN:
        return None
    is_negated = value[0][0] is c.NEGATE
    parts = value[1:] if is_negated else value

    def is_in(x: str) -> bool:
        for kind, stated in parts:
            if kind is c.LITERAL and ord(x) == stated:
                return True
            if kind is c.RANGE and stated[0] <= ord(x) <= stated[1]:
                return True
            if kind is c.CATEGORY and _CATEGORIES[stated](x):
                return True
        return False

    spellings = (lambda x: {x, x.lower()[:1], x.upper()[:1]}) if folds else (lambda x: (x,))
    return lambda x: any(map(is_in, spellings(x))) != is_negated


class _Known(dict[str, bool]):
    """Which characters are matched, each asked about once."""

    def __init__(self, is_one: Callable[[str], bool]) -> None:
        super().__init__()
        self._is_one = is_one

    def __missing__(self, x: str) -> bool:
        self[x] = self._is_one(x)
        return self[x]


_ONE, _FORK, _GO, _MARK, _MOVED, _AT, _ATOMIC, _LOOK, _END = range(9)
"""What an instruction does; three operands stand behind it."""


class Matcher:
    """A pattern as a program that goes back where it cannot go on."""

    def __init__(self, nodes: Sequence[Any], flags: int) -> None:
        self._marks = 0
        self._code: list[tuple[Any, ...]] = []
        self._add(nodes, flags)
        self._code.append((_END, None, None, None))

    def _add(self, nodes: Sequence[Any], flags: int) -> None:
        for operator, value in nodes:
            self._add_one(operator, value, flags)

    def _add_one(self, operator: Any, value: Any, flags: int) -> None:
        code = self._code
        is_one = _one_character(operator, value, flags)
        if is_one is not None:
            code.append((_ONE, _Known(is_one), None, None))
        elif operator is c.AT:
            is_multiline = flags & re.MULTILINE
            lines = {c.AT_BEGINNING: c.AT_BEGINNING_LINE, c.AT_END: c.AT_END_LINE}
            is_here = _PLACES[lines.get(value, value) if is_multiline else value]
            code.append((_AT, is_here, None, None))
        elif operator is c.SUBPATTERN:
            _, added, removed, nodes = value
            self._add(nodes, (flags | added) & ~removed)
        elif operator is c.BRANCH:
            ends = []
            for nodes in value[1][:-1]:
                fork = len(code)
                code.append(())
                self._add(nodes, flags)
                ends.append(len(code))
                code.append(())
                code[fork] = (_FORK, fork + 1, len(code), None)
            self._add(value[1][-1], flags)
            for end in ends:
                code[end] = (_GO, len(code), None, None)
        elif operator in (c.MAX_REPEAT, c.MIN_REPEAT):
            self._add_repeat(operator, value, flags)
        elif operator is c.POSSESSIVE_REPEAT:
            code.append((_ATOMIC, Matcher([(c.MAX_REPEAT, value)], flags), None, None))
        elif operator is c.ATOMIC_GROUP:
            code.append((_ATOMIC, Matcher(value, flags), None, None))
        elif operator in (c.ASSERT, c.ASSERT_NOT):
            direction, nodes = value
            width = nodes.getwidth()[0] if direction < 0 else 0
            code.append((_LOOK, Matcher(nodes, flags), operator is c.ASSERT, width))
        else:
            raise Uncounted(str(operator))

    def _add_repeat(self, operator: Any, value: Any, flags: int) -> None:
        least, most, nodes = value
        code = self._code
        least = min(least, REPEATS_MAX)

        def fork(inside: int, outside: int) -> tuple[Any, ...]:
            places = (inside, outside) if operator is c.MAX_REPEAT else (outside, inside)
            return (_FORK, *places, None)

        for _ in range(least):
            self._add(nodes, flags)
        if most is c.MAXREPEAT:
            loop, mark = len(code), self._marks
            self._marks += 1
            code.extend([(), (_MARK, mark, None, None)])
            self._add(nodes, flags)
            code.append((_MOVED, mark, loop, None))
            code[loop] = fork(loop + 1, len(code))
            return
        forks = []
        for _ in range(least, min(most, max(least, REPEATS_MAX))):
            forks.append(len(code))
            code.append(())
            self._add(nodes, flags)
        for place in forks:
            code[place] = fork(place + 1, len(code))

    def run(self, text: str, start: int, count: list[int]) -> int | None:
        """Return where the first match from a place ends, None where there is none."""
        code, length, taken = self._code, len(text), count[0]
        paths: list[tuple[int, int, tuple[int, ...]]] = [(0, start, (-1,) * self._marks)]
        while paths:
            at, place, marks = paths.pop()
            while True:
                taken += 1
                if taken > STEPS_MAX:
                    raise _Stopped
                kind, first, second, third = code[at]
                at += 1
                if kind is _ONE:
                    if place == length or not first[text[place]]:
                        break
                    place += 1
                elif kind is _FORK:
                    at = first
                    paths.append((second, place, marks))
                elif kind is _GO:
                    at = first
                elif kind is _MARK:
                    marks = (*marks[:first], place, *marks[first + 1 :])
                elif kind is _MOVED:
                    if marks[first] != place:
                        at = second
                elif kind is _AT:
                    if not first(text, place):
                        break
                elif kind is _ATOMIC:
                    count[0] = taken
                    end = first.run(text, place, count)
                    taken = count[0]
                    if end is None:
                        break
                    place = end
                elif kind is _LOOK:
                    count[0] = taken
                    is_there = place >= third and first.run(text, place - third, count) is not None
                    taken = count[0]
                    if is_there != second:
                        break
                else:
                    count[0] = taken
                    return place
        count[0] = taken
        return None


def parsed(pattern: str | bytes, flags: int) -> tuple[Sequence[Any], int]:
    """Return the tree of a pattern and its flags; bytes are taken for characters."""
    text = pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern
    tree = parser.parse(text, flags & ~re.UNICODE)
    return tree, tree.state.flags


def steps(matcher: Matcher, text: str, *, searches: bool) -> int:
    """Return how many steps a match takes, or a search for every match."""
    count, place = [0], 0
    try:
        if not searches:
            matcher.run(text, 0, count)
        while searches and place <= len(text):
            end = matcher.run(text, place, count)
            place = end if end is not None and end > place else place + 1
    except _Stopped:
        return TOO_MANY
    return count[0]


class HostileTexts:
    """Makes texts of a pattern's own alphabet whose length is about what is asked for."""

    def __init__(self, tree: Sequence[Any], flags: int, seed: int = 6962) -> None:
        self._random = Random(seed)
        self._flags = flags
        self._own: list[str] = []
        self.alphabet = self._alphabet(tree)
        self._parts = list(self._repeats(tree, ""))
        self._whole = [self._sample(tree) for _ in range(3)]

    def forms(self, count: int) -> list[tuple[str, str, str]]:
        """Return beginnings, what is repeated, and ends."""
        choose = self._random.choice
        distinct: dict[tuple[str, str, str], None] = {}
        parts = self._parts
        if len(parts) > count // 6:
            parts = self._random.sample(parts, count // 6)
        for before, nodes in parts:
            pumps = dict.fromkeys(self._sample(nodes) for _ in range(12))
            for pump in (*list(pumps)[:6], before + self._sample(nodes), choose(self.alphabet)):
                for end in ("", "\x00", choose(self.alphabet)):
                    distinct[(choose(("", before, before)), pump, end)] = None
        forms = list(distinct)
        self._random.shuffle(forms)
        singles = [("", x, end) for x in self.alphabet for end in ("", "\x00")]
        made = [
            ("", "".join(choose(self.alphabet) for _ in range(self._random.randint(1, 3))), "\x00")
            for _ in range(count // 4)
        ]
        wholes = [("", whole, "\x00") for whole in self._whole]
        return [form for form in (*forms[:count], *singles[:count], *made, *wholes) if form[1]]

    @staticmethod
    def text(form: tuple[str, str, str], length: int) -> str:
        """Return the text of a form."""
        before, pump, end = form
        times = max(length // LENGTH * 3, length // len(pump))
        return before + pump * times + end

    def _alphabet(self, tree: Sequence[Any]) -> list[str]:
        seen: dict[str, None] = dict.fromkeys((" ", "a", "0", "\n", '"', "\\"))
        literals: dict[str, None] = {}
        for operator, value in _leaves(tree):
            if operator in (c.LITERAL, c.NOT_LITERAL):
                literals[chr(value)] = None
            for kind, stated in value if operator is c.IN else ():
                if kind is c.LITERAL:
                    literals[chr(stated)] = None
                if kind is c.RANGE:
                    seen[chr(stated[0])] = None
        self._own = list(literals)[:12]
        marks = [x for x in literals if not x.isalnum()]
        letters = [x for x in literals if x.isalnum()]
        seen.update(dict.fromkeys(marks[:16] + letters[:4]))
        return list(seen)

    def _sample(self, nodes: Sequence[Any]) -> str:
        return "".join(self._sample_one(operator, value) for operator, value in nodes)

    def _sample_one(self, operator: Any, value: Any) -> str:
        is_one = _one_character(operator, value, self._flags)
        if is_one is not None:
            if operator is c.LITERAL:
                return chr(value)
            fitting = [x for x in self._candidates(operator, value) if is_one(x)]
            return self._random.choice(fitting) if fitting else ""
        if operator is c.SUBPATTERN:
            return self._sample(value[3])
        if operator is c.BRANCH:
            return self._sample(self._random.choice(value[1]))
        if operator is c.ATOMIC_GROUP:
            return self._sample(value)
        if operator in _REPEATS:
            least = min(value[0], REPEATS_MAX)
            most = min(int(value[1]), least + 1)
            return "".join(self._sample(value[2]) for _ in range(self._random.randint(least, most)))
        return ""

    def _candidates(self, operator: Any, value: Any) -> list[str]:
        stated = [chr(x[1][0]) for x in value if x[0] is c.RANGE] if operator is c.IN else []
        stated += [chr(x[1]) for x in value if x[0] is c.LITERAL] if operator is c.IN else []
        # The pattern's own characters are what its parts may quarrel about.
        return [*self._own, *self._own, *stated, *self.alphabet]

    def _repeats(self, nodes: Sequence[Any], before: str) -> Iterator[tuple[str, Sequence[Any]]]:
        """Yield what is repeated without a bound, and a text that leads to it."""
        for operator, value in nodes:
            if operator in _REPEATS:
                if value[1] is c.MAXREPEAT:
                    yield before, value[2]
                yield from self._repeats(value[2], before)
            for below in _below(operator, value) if operator not in _REPEATS else ():
                yield from self._repeats(below, before)
            before += self._sample_one(operator, value)


def _below(operator: Any, value: Any) -> list[Sequence[Any]]:
    if operator is c.SUBPATTERN:
        return [value[3]]
    if operator is c.BRANCH:
        return list(value[1])
    if operator is c.ATOMIC_GROUP:
        return [value]
    if operator in (c.ASSERT, c.ASSERT_NOT):
        return [value[1]]
    return [value[2]] if operator in _REPEATS else []


def _repeats_without_bound(nodes: Sequence[Any]) -> bool:
    """Tell whether steps from a place can depend on the length of the text at all."""
    return any(
        (operator in _REPEATS and value[1] is c.MAXREPEAT)
        or any(map(_repeats_without_bound, _below(operator, value)))
        for operator, value in nodes
    )


def _leaves(nodes: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    for operator, value in nodes:
        below = _below(operator, value)
        if not below:
            yield operator, value
        for each in below:
            yield from _leaves(each)


LENGTH = 60
GROWTH_MAX = 1.35
"""Of the steps for a character, on a text of twice the length; their square comes near to 2."""

STEPS_LEAST = 600


def what_grows(
    pattern: str | bytes, flags: int, *, searches: bool, whole: bool = False, count: int = 36
) -> str | None:
    """Return on what text a pattern's steps grow faster than the length, None where on none."""
    tree, all_flags = parsed(pattern, flags)
    if not _repeats_without_bound(tree):
        return None
    nodes = [*tree, (c.AT, c.AT_END_STRING)] if whole else list(tree)
    matcher, texts = Matcher(nodes, all_flags), HostileTexts(tree, all_flags)
    for form in texts.forms(count):
        longer, shorter = texts.text(form, 2 * LENGTH), texts.text(form, LENGTH)
        twice = steps(matcher, longer, searches=searches)
        if twice < STEPS_LEAST:
            continue
        once = steps(matcher, shorter, searches=searches)
        if twice == TOO_MANY or twice / len(longer) > GROWTH_MAX * once / len(shorter):
            return (
                f"{form!r} takes {once} steps in {len(shorter)} characters,"
                f" {twice} in {len(longer)}"
            )
    return None
