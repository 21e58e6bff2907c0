"""Defines the errors of effects outside; each says whether trying again can help."""

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from actors.error_codes import is_retryable

_FULL = "external_storage_full"
_UNSAFE = "external_path_unsafe"
_INVALID = "external_path_invalid"

_OF_THE_PATH: Mapping[int, str] = MappingProxyType(
    {
        # A link or a file where a folder of our own should be.
        errno.ELOOP: _UNSAFE,
        errno.ENOTDIR: _UNSAFE,
        errno.ENAMETOOLONG: _INVALID,
        errno.EINVAL: _INVALID,
        errno.EILSEQ: _INVALID,
        errno.EISDIR: "external_path_occupied",
    }
)
"""Errors that stay: another attempt at the same path ends the same."""

_OF_THE_DISK: Mapping[int, str] = MappingProxyType({errno.ENOSPC: _FULL, errno.EDQUOT: _FULL})


class ExternalEffectError(Exception):
    """An effect that did not happen; `code` is stable."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def transient(self) -> bool:
        """Whether trying again can help."""
        return is_retryable(self.code)


@contextmanager
def translate_errors() -> Iterator[None]:
    """Turn what the file system raises into an `ExternalEffectError`."""
    try:
        yield
    except OSError as error:
        number = error.errno or 0
        message = error.strerror or type(error).__name__
        if number in _OF_THE_PATH:
            raise ExternalEffectError(_OF_THE_PATH[number], message) from error
        code = _OF_THE_DISK.get(number, "external_storage_failed")
        raise ExternalEffectError(code, message) from error
