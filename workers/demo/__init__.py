"""The main job: everything started, dockets ingested, the record verified."""
