"""Marks and escapes content from outside: layer 1 of prompt-injection isolation (§10.3).

Inside the markers ``&``, ``<`` and ``>`` are escaped, so content cannot close its own marker. The
original text can be read back (`unwrap_untrusted`), which is what offsets of spans count in.
"""

from html import escape

from kernel.values.untrusted import unwrap_untrusted

__all__ = ["unwrap_untrusted", "wrap_untrusted"]


def wrap_untrusted(text: str, *, source: str, kind: str) -> str:
    """Return the text inside untrusted-content markers that name where it came from."""
    source, kind = escape(source), escape(kind)
    body = escape(text, quote=False)
    return f'<UNTRUSTED_CONTENT source="{source}" kind="{kind}">\n{body}\n</UNTRUSTED_CONTENT>'
