"""Defines the tags of a request: by which somebody looks for it later, such as `customer=acme`."""

import re
from collections.abc import Mapping
from typing import Final

from kernel.work.errors import WorkRefused

TAGS_MAX: Final = 16
KEY_CHARS_MAX: Final = 64
VALUE_CHARS_MAX: Final = 128

_KEY: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_VALUE: Final = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]{1,128}")


def check_tags(tags: Mapping[str, str]) -> None:
    """Refuse tags beyond the bounds.

    Raises:
        WorkRefused: `work_tags_invalid`, naming the tag.
    """
    if len(tags) > TAGS_MAX:
        raise WorkRefused("work_tags_invalid", f"a request has at most {TAGS_MAX} tags", "tags")
    for key, value in tags.items():
        if not _KEY.fullmatch(key):
            message = (
                f"the key of a tag is a letter and up to {KEY_CHARS_MAX - 1} more letters, digits,"
                " dots, hyphens or underscores"
            )
            raise WorkRefused("work_tags_invalid", message, "tags")
        if not _VALUE.fullmatch(value):
            message = f"a tag's value is a text of 1 to {VALUE_CHARS_MAX} printable characters"
            raise WorkRefused("work_tags_invalid", message, f"tags.{key}")
