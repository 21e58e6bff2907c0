"""Work that producers ask for: recorded, ordered, closed with one outcome each (K19)."""
