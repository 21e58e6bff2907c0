"""Reads the form of content from outside on the record: inside markers, escaped (§10.3).

Content is wrapped where it is taken in (`actors/orchestrator/untrusted_content.py`). Offsets of
spans count the characters of the text before wrapping, so whoever holds a span against its source
has to read it back.
"""

import re
from html import unescape

CONTENT_FLAG = "prompt_injection_isolation_wrapper_applied"
METADATA_FLAG = "metadata_wrapper_applied"
"""Fields of a node that say that its content, and its metadata, were wrapped."""

_WRAPPED = re.compile(
    r'\A<UNTRUSTED_CONTENT source="[^"<>]*" kind="[^"<>]*">\n(?P<body>.*)\n</UNTRUSTED_CONTENT>\Z',
    re.DOTALL,
)


def unwrap_untrusted(wrapped: str) -> str:
    """Return the text that was wrapped.

    Raises:
        ValueError: when this is not wrapped content.
    """
    match = _WRAPPED.match(wrapped)
    if match is None:
        raise ValueError("not wrapped content")
    return unescape(match["body"])


def text_of(stated: str) -> str:
    """Return the text that a field holds, wrapped or not."""
    match = _WRAPPED.match(stated)
    return stated if match is None else unescape(match["body"])
