"""Keeps the certificate and the key by which a process speaks TLS, and follows their files.

A connection is given the pair that was read last. Whoever renews a certificate writes two files,
one after the other, so a pair that does not belong together is not taken: the one before stays, and
the log says so. The first pair has to be right, or the process does not start.
"""

import ssl
import stat
import threading
from pathlib import Path
from typing import ClassVar, Final

import anyio
import anyio.to_thread
import structlog

from workers.environment.settings import Settings

FOLLOW_EVERY_S: Final = 5.0
"""After which a renewed certificate is shown to who connects."""

FILE_BYTES_MAX: Final = 1 << 20
_READABLE_BY_ALL: Final = stat.S_IRWXO

_Mark = tuple[tuple[int, ...], ...]

_log = structlog.get_logger(__name__)


class TlsUnusable(Exception):
    """The files of a certificate and its key cannot be used."""

    code: ClassVar[str] = "tls_unusable"


class TlsIdentity:
    """A certificate with its chain, and its key, as their files have them now."""

    def __init__(self, cert_file: Path, key_file: Path) -> None:
        """Read both.

        Raises:
            TlsUnusable: they cannot be read, do not belong together, or everybody reads the key.
        """
        self._cert_file, self._key_file = cert_file, key_file
        self._lock = threading.Lock()
        self._mark = self._mark_now()
        self._newest = self._context()
        self._problem = ""
        """Why newer files are not taken, as the log has it; they are looked at again and again."""

    def context(self) -> ssl.SSLContext:
        """Return what a server is given: each connection gets the pair that was read last."""
        context = self._context()

        def choose(connection: ssl.SSLObject, _name: str | None, _: ssl.SSLContext) -> None:
            connection.context = self._newest

        # It is called for each connection, also of a client that names nobody.
        context.sni_callback = choose
        return context

    def pair(self) -> tuple[bytes, bytes]:
        """Return the key and the certificates as their files have them now.

        Raises:
            TlsUnusable: they cannot be read.
        """
        try:
            return _content_of(self._key_file), _content_of(self._cert_file)
        except OSError as error:
            raise TlsUnusable(f"{error.filename}: {error.strerror}") from error

    def read_again(self) -> bool:
        """Read the files where they are others than before; return whether they are taken."""
        with self._lock:
            try:
                mark = self._mark_now()
                if mark == self._mark:
                    return False
                self._newest = self._context(mark)
            except TlsUnusable as error:
                before, self._problem = self._problem, str(error)
                if before != self._problem:
                    todo = "the one before is shown"
                    _log.warning("tls_not_renewed", problem=self._problem, todo=todo)
                return False
            self._mark, self._problem = mark, ""
        _log.info("tls_renewed", file=str(self._cert_file))
        return True

    async def follow(self) -> None:
        """Follow the files until cancelled."""
        while True:
            await anyio.sleep(FOLLOW_EVERY_S)
            await anyio.to_thread.run_sync(self.read_again)

    def _mark_now(self) -> _Mark:
        """Return what is another value when a file was written or replaced."""
        try:
            states = [path.stat() for path in (self._cert_file, self._key_file)]
        except OSError as error:
            raise TlsUnusable(f"{error.filename}: {error.strerror}") from error
        return tuple((each.st_mtime_ns, each.st_ino, each.st_size, each.st_mode) for each in states)

    def _context(self, mark: _Mark | None = None) -> ssl.SSLContext:
        if (mark or self._mark)[1][-1] & _READABLE_BY_ALL:
            raise TlsUnusable(f"every user may read {self._key_file}: chmod o= {self._key_file}")
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            # Without a password, or OpenSSL would ask the terminal for one.
            context.load_cert_chain(self._cert_file, self._key_file, password=_no_password)
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
            place = f"{self._cert_file}, {self._key_file}"
            raise TlsUnusable(f"{place}: no certificate with its key: {reason}") from error
        return context


def _no_password() -> str:
    raise ValueError("the key is encrypted; rotulus takes one that is not")


def _content_of(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(FILE_BYTES_MAX)


def certificates_in(path: Path) -> bytes:
    """Return what a file of certificates holds.

    Raises:
        TlsUnusable: it cannot be read, or holds none.
    """
    try:
        content = _content_of(path)
    except OSError as error:
        raise TlsUnusable(f"{path}: {error.strerror}") from error
    if b"-----BEGIN CERTIFICATE-----" not in content:
        raise TlsUnusable(f"{path}: no certificate (PEM)")
    return content


def tls_identity(settings: Settings) -> TlsIdentity | None:
    """Return by what a process of these settings speaks TLS; None where it does not.

    Raises:
        TlsUnusable: see `TlsIdentity`.
    """
    if settings.tls_cert_file is None or settings.tls_key_file is None:
        return None
    return TlsIdentity(settings.tls_cert_file, settings.tls_key_file)
