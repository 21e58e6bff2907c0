"""The detectors that a gateway runs."""

from actors.implications.detector import ImplicationDetector
from workers.implications.disposed_motions import DisposedMotions

DETECTORS: tuple[ImplicationDetector, ...] = (DisposedMotions(),)
