"""Defines the ten structural selectors: when each can be judged, and whether a list matches.

`INV-K-SELECTOR-1` (§13.8): a selector is a kind of the table and a value, and nothing else. A
`selector_list` has what it includes and what it excludes. It matches an artifact where, for every
kind that it includes, one of the values of that kind matches, and where nothing that it excludes
does. A kind that the artifact has no value of matches nothing, so it is neither included nor
excluded by it. The value of a `source_path` is a glob (`globs.py`), that of any other kind is the
artifact's own value, character by character.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from kernel.model.bindings.globs import Glob, GlobInvalid, parse_glob
from kernel.values.errors import FieldRefused

Phase = Literal[
    "intake_time",
    "post_doc25_conversion",
    "post_group_o_normalization",
    "post_relationship_resolution",
]

PHASES: tuple[Phase, ...] = (
    "intake_time",
    "post_doc25_conversion",
    "post_group_o_normalization",
    "post_relationship_resolution",
)
"""The phases of an artifact, in their order (§13.3)."""

SOURCE_KIND, SOURCE_ID, SOURCE_PATH = "source_kind", "source_id", "source_path"

SELECTOR_KINDS: Mapping[str, Phase] = MappingProxyType(
    {
        SOURCE_KIND: "intake_time",
        SOURCE_ID: "intake_time",
        SOURCE_PATH: "intake_time",
        "content_type": "post_doc25_conversion",
        "filing_unit_kind": "post_group_o_normalization",
        "filing_role": "post_group_o_normalization",
        "related_motion_type": "post_group_o_normalization",
        "legal_profile_kind": "post_group_o_normalization",
        "case_ref": "post_relationship_resolution",
        "court_id": "post_relationship_resolution",
    }
)
"""The structural kinds, each with its `selector_phase_available` (§13.3, §13.8)."""

DEFERRED_KINDS: Mapping[str, str] = MappingProxyType(
    {"size_band": "binding_size_band_deferred_v17"}
)
"""Kinds that a later version has, each with the code that refuses it (V4-K-6)."""

SELECTORS_MAX = 32
"""The selectors that a list includes at most, and those that it excludes."""

VALUE_MAX = 512

NOT_SUPPORTED = "binding_predicate_not_supported_v16"


class BindingRefused(FieldRefused):
    """A binding that states what none may state."""


@dataclass(frozen=True, slots=True)
class Selector:
    """One kind and its value."""

    kind: str
    value: str
    glob: Glob | None = None
    """The value of a `source_path`, read."""

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Tell whether an artifact's fields, by selector kind, have this value."""
        value = fields.get(self.kind)
        if value is None:
            return False
        return value == self.value if self.glob is None else self.glob.matches(value)


@dataclass(frozen=True, slots=True)
class SelectorList:
    """What a binding includes and what it excludes."""

    include: tuple[Selector, ...]
    exclude: tuple[Selector, ...] = ()

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of the selectors."""
        return frozenset(selector.kind for selector in (*self.include, *self.exclude))

    def until(self, phase: Phase) -> "SelectorList":
        """Return the part that can be judged once an artifact has passed a phase."""
        passed = frozenset(PHASES[: PHASES.index(phase) + 1])
        return SelectorList(
            *(
                tuple(each for each in selectors if SELECTOR_KINDS[each.kind] in passed)
                for selectors in (self.include, self.exclude)
            )
        )

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Tell whether an artifact with these fields, by selector kind, is selected."""
        included: dict[str, bool] = {}
        for selector in self.include:
            if not included.get(selector.kind):
                included[selector.kind] = selector.matches(fields)
        return all(included.values()) and not any(
            selector.matches(fields) for selector in self.exclude
        )


def phase_of(kinds: Iterable[str]) -> Phase:
    """Return the earliest phase by which the fields of all of these kinds are known (§13.3)."""
    return max((SELECTOR_KINDS[kind] for kind in kinds), key=PHASES.index)


def read_selector_list(document: object) -> SelectorList:
    """Return the selector list that a document states.

    Raises:
        BindingRefused: with the code, the place in the document, and what is wrong there.
    """
    if not isinstance(document, dict):
        raise BindingRefused("binding_invalid", "", "a selector list is an object")
    unknown = min(document.keys() - {"include", "exclude"}, default=None)
    if unknown is not None:
        raise BindingRefused(
            NOT_SUPPORTED, unknown, "a selector list has include and exclude, and nothing else"
        )
    include = _read_selectors(document.get("include", []), "include")
    if not include:
        raise BindingRefused(
            "binding_selector_list_empty", "include", "a binding includes one selector at least"
        )
    return SelectorList(include, _read_selectors(document.get("exclude", []), "exclude"))


def _read_selectors(stated: object, name: str) -> tuple[Selector, ...]:
    if not isinstance(stated, list):
        raise BindingRefused("binding_invalid", name, f"{name} is a list")
    if len(stated) > SELECTORS_MAX:
        raise BindingRefused("binding_invalid", name, f"{name} has at most {SELECTORS_MAX}")
    return tuple(
        _read_selector(selector, f"{name}.{place}") for place, selector in enumerate(stated)
    )


def _read_selector(stated: Any, place: str) -> Selector:
    if not isinstance(stated, dict):
        raise BindingRefused("binding_invalid", place, "a selector is an object")
    kind, value = stated.get("kind"), stated.get("value")
    shown = ascii(kind)[:80]
    if isinstance(kind, str) and kind in DEFERRED_KINDS:
        raise BindingRefused(
            DEFERRED_KINDS[kind], f"{place}.kind", f"{kind} comes with V1.7; leave it out"
        )
    if not isinstance(kind, str) or kind not in SELECTOR_KINDS:
        raise BindingRefused(
            NOT_SUPPORTED,
            f"{place}.kind",
            f"{shown} is no structural selector; use one of {', '.join(SELECTOR_KINDS)}",
        )
    unknown = min(stated.keys() - {"kind", "value"}, default=None)
    if unknown is not None:
        raise BindingRefused(
            NOT_SUPPORTED, f"{place}.{unknown}", "a selector is a kind and a value, no predicate"
        )
    if not isinstance(value, str) or not 0 < len(value) <= VALUE_MAX:
        message = f"a value is a text of 1 to {VALUE_MAX} characters"
        raise BindingRefused("binding_invalid", f"{place}.value", message)
    if kind != SOURCE_PATH:
        return Selector(kind, value)
    try:
        return Selector(kind, value, parse_glob(value))
    except GlobInvalid as error:
        raise BindingRefused(error.code, f"{place}.value", str(error)) from None
