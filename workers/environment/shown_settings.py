"""Shows the settings of a process to operators: the values, and of what may hold a secret nothing.

A field that may hold one is known by its type: a `SecretStr`, or a field that is left out of the
text of the settings (`repr=False`), such as a URL that may have a password. Of such a value it is
said that it is set, and of a URL its scheme.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr

from workers.environment.settings import Settings, variable_of

VALUE_CHARS_MAX: Final = 200
_SCHEME_CHARS_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class ShownSetting:
    """A setting as an operator may see it."""

    variable: str
    value: str
    is_default: bool
    is_masked: bool
    """Whether the value is left out, because it may hold a secret."""

    meaning: str


def shown_settings(settings: Settings) -> tuple[ShownSetting, ...]:
    """Return every setting, in the order of declaration."""
    rows = []
    for name, field in Settings.model_fields.items():
        value = getattr(settings, name)
        is_masked = value is not None and (isinstance(value, SecretStr) or not field.repr)
        rows.append(
            ShownSetting(
                variable_of(name),
                _mask(value) if is_masked else _text(value),
                name not in settings.model_fields_set,
                is_masked,
                field.description or "",
            )
        )
    return tuple(rows)


def _text(value: Any) -> str:
    if value is None:
        return "unset"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= VALUE_CHARS_MAX else text[: VALUE_CHARS_MAX - 1] + "…"


def _mask(value: Any) -> str:
    if isinstance(value, (SecretStr, Path)):
        return "set"
    scheme, separator, _ = str(value).partition("://")
    is_scheme = separator and len(scheme) <= _SCHEME_CHARS_MAX
    return f"set, {scheme}://" if is_scheme else "set"
