"""`streamd.sessions`, which is `streamd.clients.sessions` now; this name goes with 1.0."""

raise ImportError("streamd.sessions is streamd.clients.sessions now: write `from streamd.clients.sessions import ...`")
