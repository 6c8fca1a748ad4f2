"""`streamd.topics`, which is `streamd.clients.topics` now; this name goes with 1.0."""

raise ImportError("streamd.topics is streamd.clients.topics now: write `from streamd.clients.topics import ...`")
