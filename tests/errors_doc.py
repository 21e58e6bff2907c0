"""`make errors`: the table of error codes as text, from `actors/error_codes.py` alone.

What it writes is `workers/api/REFERENCE.md`; a test fails when that file says anything else.
"""

import sys
from collections.abc import Iterable, Iterator

from actors.error_codes import ERRORS, ErrorCode

HEAD = """# api

What lives here: the HTTP door. `app.py` puts it together, `middleware/` has what every request
passes, `routes/` a file for each noun, `errors.py` and `json_routes.py` what they all share.

May be imported from here by the processes: `app.py`, `services.py`, `errors.py`.

The tables below are `actors/error_codes.py`; `make errors` writes this file.

- **Fault**: what stands in the way. `request`: what is asked for; `caller`: who asks, or the way
  from there to here; `service`: the gateway or what it stands on; `unknown`: the request may be
  what made the gateway fail.
- **Again**: the same may be asked again and may succeed. 429 and 503 name a time in `Retry-After`.
- **Taken**: whether something of the request may have taken effect, or may still.

A rejected operation that is all of a request is answered with 422 and the kernel's reason as its
code; with 429 where the kernel names a time.
"""


def text() -> str:
    answered = {code: meaning for code, meaning in ERRORS.items() if meaning.status is not None}
    without_status = {code: meaning for code, meaning in ERRORS.items() if meaning.status is None}
    return "\n".join(
        [
            HEAD,
            "## What the gateway answers\n",
            "| Status | Code | Fault | Again | Taken |",
            "|---|---|---|---|---|",
            *_rows(sorted(answered.items(), key=lambda item: (item[1].status, item[0]))),
            "",
            "## What clients and commands say themselves, and what stands in reports and logs\n",
            "| Status | Code | Fault | Again | Taken |",
            "|---|---|---|---|---|",
            *_rows(sorted(without_status.items())),
            "",
        ]
    )


def _rows(codes: Iterable[tuple[str, ErrorCode]]) -> Iterator[str]:
    for code, meaning in codes:
        again = "yes" if meaning.is_retryable else "no"
        taken = "perhaps" if meaning.may_be_taken else "no"
        yield f"| {meaning.status or '–'} | `{code}` | {meaning.fault} | {again} | {taken} |"


if __name__ == "__main__":
    sys.stdout.write(text())
