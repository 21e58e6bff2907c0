"""Reads a kit from a TOML file: hypotheses, probes, and what each outcome of a probe eliminates.

The form is TOML and not YAML: the standard library reads it, its keys are always texts (in YAML 1.1
a bare `yes` is a boolean, and a kit written so cannot be played), and a key that stands twice is an
error. Outcomes are quoted all the same. Bundled kits need no entry point: they are found in the
package, whose metadata may be older than its files.
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from kernel.belief.errors import BeliefInputError
from kernel.belief.limits import MAX_ID_CHARS
from kernel.model.problems import first_problem

KIT_BYTES_MAX = 1024 * 1024

KitKind = Literal["twenty_questions", "itbench"]


@dataclass(frozen=True, slots=True)
class Probe:
    """A question with its outcomes."""

    probe_id: str
    prompt: str
    removes: Mapping[str, tuple[str, ...]]
    """The hypotheses that each outcome eliminates, as the kit lists them."""


@dataclass(frozen=True, slots=True)
class Kit:
    """A kit; it is a `HypothesisProvider`."""

    kind: KitKind
    kit_id: str
    kit_version: str
    hypotheses: tuple[str, ...]
    probes: Mapping[str, Probe]

    def id(self) -> str:
        """Return the name of the hypothesis space."""
        return self.kit_id

    def version(self) -> str:
        """Return the version of the hypothesis space."""
        return self.kit_version

    def hypothesis_ids(self) -> tuple[str, ...]:
        """Return every hypothesis in the order of the file."""
        return self.hypotheses

    def probe_ids(self) -> tuple[str, ...]:
        """Return every probe in the order of the file."""
        return tuple(self.probes)

    def apply_probe(self, probe_id: str, response: str) -> dict[str, bool]:
        """Return what the response eliminates.

        Raises:
            BeliefInputError: `probe_unknown`, `response_unknown`.
        """
        return dict.fromkeys(self.removed_hypotheses(probe_id, response), True)

    def removed_hypotheses(self, probe_id: str, outcome: str) -> tuple[str, ...]:
        """Return what an outcome eliminates, as the kit lists it; see `apply_probe`."""
        probe = self.probe(probe_id)
        if outcome not in probe.removes:
            known = ", ".join(probe.removes)
            raise BeliefInputError("response_unknown", f"{probe_id}: {outcome!r} is not in {known}")
        return probe.removes[outcome]

    def probe(self, probe_id: str) -> Probe:
        """Return a probe.

        Raises:
            BeliefInputError: `probe_unknown`.
        """
        if probe_id not in self.probes:
            raise BeliefInputError("probe_unknown", f"kit {self.kit_id} has no probe {probe_id!r}")
        return self.probes[probe_id]


Name = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARS)]
Names = Annotated[list[Name], Field(max_length=10_000, fail_fast=True)]
Rows = dict[Name, Names]


class _ProbeFile(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    id: Name
    prompt: Name
    keep: Rows | None = None
    removes: Rows | None = None


class _KitFile(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    kind: KitKind
    id: Name
    version: Name
    hypotheses: Annotated[Names, Field(min_length=1)]
    probe: Annotated[list[_ProbeFile], Field(min_length=1, max_length=10_000, fail_fast=True)]

    @model_validator(mode="after")
    def _hold_together(self) -> "_KitFile":
        _check_unique("hypotheses", self.hypotheses)
        _check_unique("probes", (probe.id for probe in self.probe))
        for probe in self.probe:
            self._check_rows(probe)
        return self

    def _check_rows(self, probe: _ProbeFile) -> None:
        column = "keep" if self.kind == "twenty_questions" else "removes"
        if {"keep": probe.keep, "removes": probe.removes}[column] is None or (
            probe.keep is not None and probe.removes is not None
        ):
            raise ValueError(f"{probe.id}: a kit of {self.kind} says what an outcome {column}")
        rows = probe.keep or probe.removes or {}
        if not rows:
            raise ValueError(f"{probe.id}: has no outcomes")
        for outcome, names in rows.items():
            if outcome != outcome.strip().lower():
                raise ValueError(f"{probe.id}: outcome {outcome!r} is not trimmed lower case")
            _check_unique(f"{probe.id}: {outcome}", names)
            unknown = [name for name in names if name not in self.hypotheses]
            if unknown:
                raise ValueError(f"{probe.id}: {outcome} names {unknown[0]!r}, no hypothesis")
        if probe.keep is not None:
            if set(probe.keep) != {"yes", "no"}:
                raise ValueError(f'{probe.id}: the outcomes are "yes" and "no"')
            never_kept = set(self.hypotheses).difference(*probe.keep.values())
            if never_kept:
                raise ValueError(f"{probe.id}: no answer keeps {min(never_kept)!r}")


def load_kit(content: bytes, name: str = "kit") -> Kit:
    """Read a kit of at most 1 MiB; an unknown key or a row that does not fit is refused.

    Raises:
        BeliefInputError: `kit_invalid`, with the name and the first thing that is wrong.
    """
    if len(content) > KIT_BYTES_MAX:
        raise BeliefInputError("kit_invalid", f"{name}: more than {KIT_BYTES_MAX} bytes")
    try:
        read = _KitFile.model_validate(tomllib.loads(content.decode()))
    except (ValidationError, tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BeliefInputError("kit_invalid", f"{name}: {_first(error)}") from None
    probes = {
        probe.id: Probe(probe.id, probe.prompt, _removes(read, probe)) for probe in read.probe
    }
    return Kit(read.kind, read.id, read.version, tuple(read.hypotheses), probes)


def bundled_kits() -> list[str]:
    """Return the names of the kits that come with this package, sorted."""
    names = (file.name for file in _data().iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def bundled_kit(name: str) -> Kit:
    """Read a kit that comes with this package.

    Raises:
        BeliefInputError: `kit_unknown`.
    """
    if name not in bundled_kits():
        raise BeliefInputError("kit_unknown", f"{name!r} is not in {', '.join(bundled_kits())}")
    return load_kit((_data() / f"{name}.toml").read_bytes(), name)


def kit_file(path: Path) -> Kit:
    """Read a kit from a file; see `load_kit`."""
    try:
        with path.open("rb") as file:
            content = file.read(KIT_BYTES_MAX + 1)
    except OSError as error:
        raise BeliefInputError("kit_invalid", f"{path}: {error.strerror}") from None
    return load_kit(content, path.name)


def _data() -> Traversable:
    return files(__package__) / "data"


def _removes(kit: _KitFile, probe: _ProbeFile) -> dict[str, tuple[str, ...]]:
    if probe.keep is None:
        return {outcome: tuple(names) for outcome, names in (probe.removes or {}).items()}
    return {
        outcome: tuple(name for name in kit.hypotheses if name not in set(names))
        for outcome, names in probe.keep.items()
    }


def _check_unique(kind: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{kind}: {name!r} stands twice")
        seen.add(name)


def _first(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    where, message = first_problem(error)
    message = message.removeprefix("Value error, ")
    return f"{where}: {message}" if where else message
