"""Judges a share token by its hash, which is all that the record has of it."""

import hmac

from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.values.canonical import sha256_hex

TOKEN_BYTES = 32
TOKEN_CHARS_MAX = 128


def token_is_valid(view: LedgerView, token: str) -> bool:
    """Tell whether a token was issued and its link was not revoked (§4.3.9, §4.3.10)."""
    if len(token) > TOKEN_CHARS_MAX or not token.isascii():
        return False
    stated = token_hash(token)
    rows = view.tables.select(schema.share_links, {"token_sha256": stated}, limit=1)
    if not rows:
        return False
    record = view.record(schema.share_links, rows[0]["share_link_id"])
    # The look-up is by a digest that nobody can steer; what decides takes the same time always.
    known = "" if record is None else str(record.get("token_sha256", ""))
    same = hmac.compare_digest(stated, known)
    return same and record is not None and record["state"] == "active"


def token_hash(token: str) -> str:
    """Return the hash under which a token is known."""
    return sha256_hex(token.encode())
