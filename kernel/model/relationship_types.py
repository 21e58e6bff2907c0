"""Lists how one filing may stand to another."""

from typing import Literal

RelationshipType = Literal[
    "responds_to",
    "replies_to",
    "opposes",
    "supports",
    "amends",
    "supersedes",
    "exhibit_to",
    "rules_on",
]
