"""Keeps the segments of the archive in a bucket of an S3-compatible store.

Objects lie as files do in a folder, `ab/abcd….jsonl.gz` below the prefix of the URL. Credentials,
region and endpoint are those of AWS's own variables, so they are in no setting and no file of
Rotulus. Nobody believes what a store answers: an `Archive` holds each file to its hash (decision
workers/0260).
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from kernel.ledger.archive import ArchiveUnavailable
from kernel.ledger.archive_segment import RAW_BYTES_MAX

if TYPE_CHECKING:
    from obstore.store import S3Store

SUFFIX = ".jsonl.gz"
NAMES_MAX = 4_000_000
"""Objects that are listed at most; a billion rows of the log."""

CONNECT_S = 5
ANSWER_S = 60
"""For an answer to one request, its body included."""

RETRIES = 2
MARK_BYTES_MAX = 4096
_CHUNK_BYTES = 1 << 20
_MESSAGE_CHARS = 300
_OBJECT = re.compile(r"(?:^|/)[0-9a-f]{2}/([0-9a-f]{64})(\.[a-z.]+)$")
_NO_BUCKET = "<Code>NoSuchBucket</Code>"


class S3Files:
    """Objects in a bucket; any number of processes may write the same one."""

    def __init__(self, url: str, answer_s: float = ANSWER_S, suffix: str = SUFFIX) -> None:
        """Name a bucket and a prefix in it by `s3://bucket/prefix`; nothing is asked of it yet.

        Names end with the suffix there.

        Raises:
            ArchiveUnavailable: `archive_not_configured`, the optional library is not installed, or
                the variables of AWS are no configuration.
        """
        self._url = url
        self._suffix = suffix
        self._store = _store_at(url, answer_s)

    def put(self, name: str, content: bytes) -> None:
        """Keep an object; the store has it when this returns."""
        import obstore  # noqa: PLC0415 - see `_store_at`

        with self._translate_store_errors():
            obstore.put(self._store, self._path(name), content)

    def get(self, name: str) -> bytes | None:
        """Return an object, None where there is none of that name."""
        import obstore  # noqa: PLC0415 - see `_store_at`

        with self._translate_store_errors():
            try:
                result = obstore.get(self._store, self._path(name))
            except FileNotFoundError as error:
                if _NO_BUCKET in str(error):
                    raise
                return None
            content = bytearray()
            for chunk in result.stream(min_chunk_size=_CHUNK_BYTES):
                content += chunk
                if len(content) > RAW_BYTES_MAX:
                    raise ArchiveUnavailable(
                        f"{self._url} has a segment {name} of more than {RAW_BYTES_MAX} bytes",
                        code="archive_segment_damaged",
                    )
            return bytes(content)

    def claim(self, mark: str, content: bytes) -> bytes:
        """Return what lies under the name of a mark, which is this content where nothing lay there.

        Of two at once one writes it, where the store knows conditional writes.
        """
        import obstore  # noqa: PLC0415 - see `_store_at`
        from obstore.exceptions import AlreadyExistsError, NotSupportedError  # noqa: PLC0415 - see there

        with self._translate_store_errors():
            if (there := self._mark(mark)) is not None:
                return there
            try:
                obstore.put(self._store, mark, content, mode="create")
            except AlreadyExistsError:
                pass
            except NotSupportedError:
                obstore.put(self._store, mark, content)
            return self._mark(mark) or b""

    def _mark(self, mark: str) -> bytes | None:
        import obstore  # noqa: PLC0415 - see `_store_at`

        try:
            chunks = obstore.get(self._store, mark).stream(min_chunk_size=MARK_BYTES_MAX)
        except FileNotFoundError as error:
            if _NO_BUCKET in str(error):
                raise
            return None
        return bytes(next(iter(chunks), b""))[:MARK_BYTES_MAX]

    def delete(self, name: str) -> None:
        """Remove an object, if there is one of that name."""
        import obstore  # noqa: PLC0415 - see `_store_at`

        with self._translate_store_errors():
            obstore.delete(self._store, self._path(name))

    def names(self) -> Iterator[str]:
        """Yield the names of all objects; others that lie there are passed over."""
        import obstore  # noqa: PLC0415 - see `_store_at`

        count = 0
        with self._translate_store_errors():
            for page in obstore.list(self._store):
                count += len(page)
                if count > NAMES_MAX:
                    raise ArchiveUnavailable(f"{self._url} lists more than {NAMES_MAX} objects")
                for entry in page:
                    name = _OBJECT.search(entry["path"])
                    if name is not None and name[2] == self._suffix:
                        yield name[1]

    def _path(self, name: str) -> str:
        return f"{name[:2]}/{name}{self._suffix}"

    @contextmanager
    def _translate_store_errors(self) -> Iterator[None]:
        from obstore.exceptions import BaseError  # noqa: PLC0415 - see `_store_at`

        try:
            yield
        except (BaseError, OSError) as error:
            reason = (
                "there is no such bucket" if _NO_BUCKET in str(error) else _printable_message(error)
            )
            raise ArchiveUnavailable(f"{self._url}: {reason}") from None
        except BaseException as error:
            # A panic of the library is no `Exception`, and would end the process.
            if type(error).__name__ != "PanicException":
                raise
            raise ArchiveUnavailable(f"{self._url}: {_printable_message(error)}") from None


def _store_at(url: str, answer_s: float) -> "S3Store":
    # An optional library, and 20 ms for who keeps a folder.
    try:
        from obstore.exceptions import BaseError  # noqa: PLC0415 - the reason above
        from obstore.store import S3Store  # noqa: PLC0415 - the reason above
    except ImportError:
        message = f"{url} needs the extra s3: pip install 'rotulus[s3]'"
        raise ArchiveUnavailable(message, code="archive_not_configured") from None
    parts = urlsplit(url)
    # As `client_options` they would take the place of AWS_ALLOW_HTTP and the like. The library's
    # types do not name them here.
    timeouts: Any = {"connect_timeout": f"{CONNECT_S} s", "timeout": f"{answer_s * 1000:.0f} ms"}
    try:
        return S3Store(
            parts.netloc,
            prefix=unquote(parts.path).strip("/") or None,
            config=timeouts,
            retry_config={
                "max_retries": RETRIES,
                "retry_timeout": timedelta(seconds=answer_s),
            },
        )
    except (BaseError, ValueError) as error:
        message = f"{url}: {_printable_message(error)}"
        raise ArchiveUnavailable(message, code="archive_not_configured") from None


def _printable_message(error: BaseException) -> str:
    """Return the first line of a message, which may hold what a store has answered."""
    first = str(error).strip().partition("\n")[0]
    return "".join(char for char in first if char.isprintable())[:_MESSAGE_CHARS]
