"""Asks an authority for time stamps over checkpoints (RFC 3161), and verifies them under its roots.

The stamp is on the text of a checkpoint's note, whoever signs below it. A stamp says that the
checkpoint was there at a time; it says nothing about whether the log had another one as well, which
is for witnesses to say. The answer of an authority is kept as it came, so that any tool that knows
RFC 3161 reads it (decision workers/0202).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import httpx
from cryptography.x509 import Certificate, load_pem_x509_certificates
from rfc3161_client import (
    HashAlgorithm,
    TimestampRequestBuilder,
    TimeStampResponse,
    VerificationError,
    VerifierBuilder,
    decode_timestamp_response,
)
from rfc3161_client.tsp import TimeStampRequest

from kernel.proof.verification import ProofInvalid

ASKED_S_MAX = 10.0
STAMP_BYTES_MAX = 64 << 10

_REQUEST_TYPE = "application/timestamp-query"
_ANSWER_TYPE = "application/timestamp-reply"


class TimeStampUnavailable(Exception):
    """The authority does not answer, or answers with no stamp; a later try may succeed."""

    code = "time_stamp_unavailable"


class TimeStampInvalid(ProofInvalid):
    """A stamp is none of the text, or none of an authority under these roots."""

    code = "time_stamp_invalid"


@dataclass(frozen=True, slots=True)
class TimeStamp:
    """The answer of an authority in DER, and the time that it states."""

    content: bytes
    stamped_at: datetime


def roots_of(pem: bytes) -> list[Certificate]:
    """Read the roots under which stamps are verified.

    Raises:
        TimeStampInvalid: there are none.
    """
    try:
        return load_pem_x509_certificates(pem)
    except ValueError as error:
        raise TimeStampInvalid(f"the file holds no certificates: {error}") from None


async def time_stamp(
    url: str,
    text: bytes,
    roots: Sequence[Certificate],
    *,
    transport: httpx.AsyncBaseTransport | None = None,
) -> TimeStamp:
    """Ask an authority for a stamp over a text, and verify it.

    Raises:
        TimeStampUnavailable: it does not answer in time, or with something else than a stamp.
        TimeStampInvalid: the stamp does not verify.
    """
    request = (
        TimestampRequestBuilder()
        .data(text)
        .hash_algorithm(HashAlgorithm.SHA256)
        .nonce(nonce=True)
        .cert_request(cert_request=True)
        .build()
    )
    try:
        async with httpx.AsyncClient(
            transport=transport, trust_env=False, timeout=ASKED_S_MAX
        ) as http:
            content = await _ask_stamp(http, url, request.as_bytes())
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError) as error:
        raise TimeStampUnavailable(f"{url}: {type(error).__name__}") from error
    return verify_time_stamp(content, text, roots, request)


def verify_time_stamp(
    content: bytes,
    text: bytes,
    roots: Sequence[Certificate],
    request: TimeStampRequest | None = None,
) -> TimeStamp:
    """Return a stamp over a text, the answer to a request where there is one.

    Raises:
        TimeStampInvalid: it is none, of another text or request, or of nobody under the roots.
    """
    builder = VerifierBuilder() if request is None else VerifierBuilder.from_request(request)
    for root in roots:
        builder = builder.add_root_certificate(root)
    if len(content) > STAMP_BYTES_MAX:
        raise TimeStampInvalid(f"a stamp has at most {STAMP_BYTES_MAX} bytes")
    try:
        response: TimeStampResponse = decode_timestamp_response(content)
        builder.build().verify_message(response, text)
        return TimeStamp(content, response.tst_info.gen_time.astimezone(UTC))
    except (VerificationError, ValueError, TypeError) as error:
        raise TimeStampInvalid(f"the time stamp does not verify: {error}") from None


async def _ask_stamp(http: httpx.AsyncClient, url: str, request: bytes) -> bytes:
    headers = {"Content-Type": _REQUEST_TYPE, "Accept-Encoding": "identity"}
    async with http.stream("POST", url, content=request, headers=headers) as answer:
        media_type = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if answer.status_code != httpx.codes.OK or media_type != _ANSWER_TYPE:
            raise TimeStampUnavailable(f"{url}: status {answer.status_code}, {media_type!r}")
        content = b""
        # As it came over the wire: what is encoded is not unpacked.
        async for part in answer.aiter_raw():
            content += part
            if len(content) > STAMP_BYTES_MAX:
                raise TimeStampUnavailable(f"{url}: the answer is too long")
        return content
