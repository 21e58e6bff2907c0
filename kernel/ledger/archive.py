"""Reads segments that lie outside the database, in the archive.

A segment's file is named by its hash and never changes. Reading one checks the hash, so what lies
in an archive is believed as far as the ledger names it.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from kernel.ledger.archive_segment import Segment, content_hash_of, unpack_segment
from kernel.ledger.archived_content import pack_content, unpack_content
from kernel.ledger.blob_commitment import SALT_BYTES, blob_commitment
from kernel.ledger.thought_segment import ThoughtSegment, unpack_thoughts
from kernel.values.errors import KernelError, LedgerCorrupt

CACHE_BYTES = 64 << 20
"""The most that unpacked segments hold in a process; the one that was read last stays whatever."""


_Held = TypeVar("_Held", Segment, ThoughtSegment)


class ArchiveUnavailable(KernelError):
    """What lies in the archive cannot be read; it concerns who asked for it, and nobody else.

    The ledger itself is in order, so this is no `LedgerUnavailable` and no `LedgerCorrupt`: one
    segment that is gone must not stop a gateway (decision kernel/0382). `code` is
    `archive_segment_missing` where a file is not there, `archive_segment_damaged` where it is
    another one, `archived_content_missing` and `archived_content_damaged` of the content of a
    thought, `archive_not_configured` where nobody said where the archive is.
    """

    code = "archive_unavailable"

    table = ""
    key = ""
    """Of a file that is damaged: what it is, and its name."""


def _damage_error(kind: str, name: str, message: str) -> ArchiveUnavailable:
    error = ArchiveUnavailable(message, code=f"{kind}_damaged")
    error.table, error.key = f"{kind}s", name
    return error


class SegmentFiles(Protocol):
    """A place where files lie by their names; names are 64 hexadecimal digits.

    Each raises `ArchiveUnavailable` when the place does not answer.
    """

    def put(self, name: str, content: bytes) -> None:
        """Keep a file; durable when this returns. One of that name is there as a whole or not."""

    def get(self, name: str) -> bytes | None:
        """Return a file, None where there is none of that name."""

    def delete(self, name: str) -> None:
        """Remove a file, if there is one of that name; gone for good when this returns."""

    def names(self) -> Iterator[str]:
        """Yield the names of all files, in no order."""


class _KeptSegments:
    """Segments that were read last, unpacked; for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._segments: OrderedDict[str, Segment | ThoughtSegment] = OrderedDict()
        self._bytes = 0

    def get(self, content_hash: str) -> Segment | ThoughtSegment | None:
        with self._lock:
            kept = self._segments.get(content_hash)
            if kept is not None:
                self._segments.move_to_end(content_hash)
            return kept

    def keep(self, content_hash: str, segment: Segment | ThoughtSegment) -> None:
        with self._lock:
            if content_hash not in self._segments:
                self._segments[content_hash] = segment
                self._bytes += segment.raw_bytes
            while self._bytes > CACHE_BYTES and len(self._segments) > 1:
                _, dropped = self._segments.popitem(last=False)
                self._bytes -= dropped.raw_bytes


class Archive:
    """The segments of one ledger, the ones that were read last kept unpacked; for any thread."""

    def __init__(
        self, files: SegmentFiles | None = None, kept: _KeptSegments | None = None
    ) -> None:
        self._files = files
        self._kept = kept or _KeptSegments()
        self.reads = 0
        """How often something was read from it, kept or not, so that who asks can be told that some
        of it is cold."""

    def of_snapshot(self) -> "Archive":
        """Return the same archive with a count of reads of its own."""
        return Archive(self._files, self._kept)

    @property
    def is_configured(self) -> bool:
        """Whether a place is named."""
        return self._files is not None

    @property
    def files(self) -> SegmentFiles:
        """The place where the files lie.

        Raises:
            ArchiveUnavailable: `archive_not_configured`, none is named.
        """
        if self._files is None:
            message = "no archive is named: set ROTULUS_ARCHIVE_URL"
            raise ArchiveUnavailable(message, code="archive_not_configured")
        return self._files

    def segment(self, content_hash: str) -> Segment:
        """Return the segment whose file has this hash.

        Raises:
            ArchiveUnavailable: the archive does not answer, lacks the file, or has another one.
        """
        return self._read_through(content_hash, Segment, unpack_segment)

    def thoughts(self, content_hash: str) -> ThoughtSegment:
        """Return the thoughts whose file has this hash.

        Raises:
            ArchiveUnavailable: see `segment`.
        """
        return self._read_through(content_hash, ThoughtSegment, unpack_thoughts)

    def read(self, content_hash: str) -> Segment:
        """Return the segment whose file has this hash, as it lies in the archive now.

        Raises:
            ArchiveUnavailable: see `segment`.
        """
        return self._read(content_hash, unpack_segment)

    def read_thoughts(self, content_hash: str) -> ThoughtSegment:
        """Return the thoughts whose file has this hash, as they lie in the archive now.

        Raises:
            ArchiveUnavailable: see `segment`.
        """
        return self._read(content_hash, unpack_thoughts)

    def _read_through(
        self, content_hash: str, kind: type[_Held], unpack: Callable[[bytes], _Held]
    ) -> _Held:
        kept = self._kept.get(content_hash)
        if isinstance(kept, kind):
            self.reads += 1
            return kept
        segment = self._read(content_hash, unpack)
        self._kept.keep(content_hash, segment)
        return segment

    def _read(self, content_hash: str, unpack: Callable[[bytes], _Held]) -> _Held:
        content = self._get(content_hash)
        if content is None:
            message = f"the archive lacks the segment {content_hash}"
            raise ArchiveUnavailable(message, code="archive_segment_missing")
        reason = "the file does not have the hash by which it is named"
        if content_hash_of(content) == content_hash:
            try:
                return unpack(content)
            except LedgerCorrupt as error:
                reason = str(error)
        message = f"the segment {content_hash}: {reason}"
        raise _damage_error("archive_segment", content_hash, message)

    def put_content(self, commitment: str, salt: bytes, content: str) -> None:
        """Keep the content of a commitment, and read it back.

        Raises:
            ArchiveUnavailable: see `content`.
        """
        self.files.put(commitment, pack_content(commitment, salt, content))
        self.content(commitment)

    def content(self, commitment: str) -> tuple[bytes, bytes]:
        """Return the salt and the content of a commitment, as they lie in the archive now.

        Raises:
            ArchiveUnavailable: the archive does not answer, lacks it, or has another one.
        """
        file = self._get(commitment)
        if file is None:
            message = f"the archive lacks the content of {commitment}"
            raise ArchiveUnavailable(message, code="archived_content_missing")
        reason = "the file does not keep the commitment by which it is named"
        try:
            salt, content = unpack_content(file)
            # Bytes of a salt of another length could be taken for bytes of the content.
            if len(salt) == SALT_BYTES and blob_commitment(salt, content) == commitment:
                return salt, content
        except LedgerCorrupt as error:
            reason = str(error)
        message = f"the content of {commitment}: {reason}"
        raise _damage_error("archived_content", commitment, message)

    def _get(self, name: str) -> bytes | None:
        self.reads += 1
        return self.files.get(name)

    def erase_content(self, commitment: str) -> None:
        """Remove the content of a commitment, if it lies there; nothing where there is no archive.

        Raises:
            ArchiveUnavailable: the archive does not answer, and the content may still lie there.
        """
        if self._files is not None:
            self._files.delete(commitment)


NO_ARCHIVE = Archive()
"""The archive of a ledger for which none is named."""
