"""Reads somebody's own JSON as dockets: which of its values is which field of ours.

`FIELD=PATH` says where a field is read, `FIELD=VALUE` what it is where there is nothing. A field of
an entry is `docket_entries.FIELD`, and its path begins in the entry. A path is names and places in
lists with dots between them (`case.parties.0`), or a JSON Pointer (`/case/a.b`). A field without
a path is read under its own name. A whole number that stands where text belongs is taken as text.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Final

from kernel.values.errors import KernelError

ENTRIES: Final = "docket_entries"
DOCKET_FIELDS: Final = (
    "source_id",
    "court_id",
    "court_kind",
    "case_name",
    "docket_number",
    "date_filed",
    ENTRIES,
)
ENTRY_FIELDS: Final = (
    "date_filed",
    "date_entered",
    "document_number",
    "pacer_seq_no",
    "description",
)
SOURCE_FIELDS: Final = ("source_id", "text")
"""The fields of any JSON that is taken as a source."""

FIELDS: Final = (*DOCKET_FIELDS, *(f"{ENTRIES}.{name}" for name in ENTRY_FIELDS))

_NOTHING: Final = object()


class FieldMapInvalid(KernelError):
    """An option says of no field where it is, or says it twice."""

    code = "field_map_invalid"


Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FieldMap:
    """Where each field of a docket is read, and what it is where there is nothing."""

    paths: Mapping[str, Path] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, paths: Iterable[str], defaults: Iterable[str], fields: Sequence[str]) -> "FieldMap":
        """Return the map that options state.

        Raises:
            FieldMapInvalid: one names no field, or one that another names.
        """
        located = {name: path_of(path) for name, path in _pairs(paths, fields)}
        return cls(located, dict(_pairs(defaults, fields)))

    def docket(self, raw: dict[str, Any]) -> dict[str, Any]:
        """Return a docket under the names of its fields."""
        if not self.paths and not self.defaults:
            return raw
        docket = self.read(raw, DOCKET_FIELDS)
        entries = docket.get(ENTRIES)
        if isinstance(entries, list):
            docket[ENTRIES] = [
                self.read(entry, ENTRY_FIELDS, f"{ENTRIES}.") if isinstance(entry, dict) else entry
                for entry in entries
            ]
        return docket

    def read(self, raw: dict[str, Any], names: Iterable[str], prefix: str = "") -> dict[str, Any]:
        """Return an object with these fields where the map says that they are."""
        document = dict(raw)
        for name in names:
            path = self.paths.get(prefix + name)
            value = raw.get(name, _NOTHING) if path is None else value_at(raw, path)
            if value is _NOTHING or value is None or value == "":
                value = self.defaults.get(prefix + name, value)
            elif path is not None and type(value) is int:
                value = str(value)
            document[name] = value
            if value is _NOTHING:
                del document[name]
        return document


BY_THEIR_NAMES: Final = FieldMap(MappingProxyType({}), MappingProxyType({}))


def path_of(text: str) -> Path:
    """Return the parts of a path."""
    if not text.startswith("/"):
        return tuple(text.split("."))
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/"))


def value_at(raw: Any, path: Path) -> Any:
    """Return the value at a path, and what is nothing where there is none."""
    for part in path:
        if isinstance(raw, dict) and part in raw:
            raw = raw[part]
        elif isinstance(raw, list) and part.isdecimal() and len(part) <= 9 and int(part) < len(raw):
            raw = raw[int(part)]
        else:
            return _NOTHING
    return raw


def _pairs(options: Iterable[str], fields: Sequence[str]) -> Iterable[tuple[str, str]]:
    seen: set[str] = set()
    for option in options:
        name, equals, value = option.partition("=")
        if not equals or not value:
            raise FieldMapInvalid(f"{option!r} is not FIELD=PATH, such as {fields[0]}=id")
        if name not in fields:
            near = get_close_matches(name, fields, 1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise FieldMapInvalid(f"{name!r} is no field{hint}; fields: {', '.join(fields)}")
        if name in seen:
            raise FieldMapInvalid(f"{name!r} is named twice")
        seen.add(name)
        yield name, value
