"""Says what a reader can do after a refusal: by its code, or else by its status."""

from collections.abc import Mapping
from typing import Any, Final

MESSAGE_CHARS_MAX: Final = 400

_TITLES: Final[Mapping[int, str]] = {
    403: "Refused",
    404: "Nothing is here",
    405: "Refused",
    410: "Nothing is here any more",
    421: "Refused",
    429: "Not now",
    503: "Not now",
}
ADVICE_OF_CODES: Final[Mapping[str, str]] = {
    "host_unknown": "Open the gateway by a name of the loopback, or have whoever runs it add this"
    " name to ROTULUS_ALLOWED_HOSTS.",
    "ledger_went_back": "Every page says only this until somebody has decided what is to count.",
    "queue_unavailable": "What is asked for stays on the record, and goes on once Redis answers."
    " Reload to look again; `rotulus status` says how it stands.",
    "queue_refused": "What is asked for stays on the record, and goes on once Redis takes it."
    " `rotulus status` says why it refuses, and what to do.",
    "ledger_unavailable": "The database does not answer. Reload to look again; `rotulus doctor`"
    " says whether it can be reached.",
    "gateway_full": "The gateway has as many requests in hand as it takes. Wait a few seconds, and"
    " reload.",
    "checkpoint_not_published": "Set ROTULUS_CHECKPOINT_KEY for the gateway, and open the page anew"
    " once a checkpoint is published.",
}
_OF_STATUSES: Final[Mapping[int, str]] = {
    403: "Open the page from the gateway itself, and send the form from there.",
    404: "Check that the address or the id is whole. The search above finds any id, key, tag or"
    " words; a worker that has ended, or an item that was erased, has no page any more.",
    405: "Open the page that has the form, and use it there.",
    421: "Open the gateway by one of its own names.",
    429: "Wait a few seconds, and reload.",
    503: "Wait a few seconds, and reload. If it goes on, `rotulus status` says what is wrong.",
}
_OF_DEFECTS: Final = (
    "The log of the gateway says more, under the id of this request. `rotulus doctor` looks for"
    " damage."
)
_OF_THE_REST: Final = "Go back to the page that you came from, and correct what it says."


def refusal_context(code: str, message: str, status: int) -> dict[str, Any]:
    """Return what the page of a refusal shows: what it is, why, and what to do next."""
    rest = _OF_DEFECTS if status >= 500 else _OF_THE_REST
    return {
        "code": code,
        "message": message[:MESSAGE_CHARS_MAX],
        "title": _TITLES.get(status, "The gateway failed" if status >= 500 else "Refused"),
        "advice": ADVICE_OF_CODES.get(code) or _OF_STATUSES.get(status) or rest,
        "asked_as": None,
    }
