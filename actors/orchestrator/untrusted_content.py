"""Layer 1 of prompt-injection isolation: content from outside is marked and escaped (§10.3).

Inside the markers ``&``, ``<`` and ``>`` are escaped, so content cannot close its own marker. The
original text can be read back, which is what offsets of source spans count in.
"""

import re
from html import escape, unescape

_WRAPPED = re.compile(
    r'\A<UNTRUSTED_CONTENT source="[^"<>]*" kind="[^"<>]*">\n(?P<body>.*)\n</UNTRUSTED_CONTENT>\Z',
    re.DOTALL,
)


def wrap_untrusted(text: str, *, source: str, kind: str) -> str:
    """Return the text inside untrusted-content markers that name where it came from."""
    source, kind = escape(source), escape(kind)
    body = escape(text, quote=False)
    return f'<UNTRUSTED_CONTENT source="{source}" kind="{kind}">\n{body}\n</UNTRUSTED_CONTENT>'


def unwrap_untrusted(wrapped: str) -> str:
    """Return the text that was wrapped.

    Raises:
        ValueError: when this is not wrapped content.
    """
    match = _WRAPPED.match(wrapped)
    if match is None:
        raise ValueError("not wrapped content")
    return unescape(match["body"])
