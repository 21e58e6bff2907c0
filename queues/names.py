"""The work queues by name, for who needs no more than that; a test holds them to the relay's table.

Importing this costs nothing, which the settings of every command need.
"""

from typing import Final

QUEUES: Final = ("authority-recompute", "binding-evaluation", "extraction-transition")
