"""Checks that each command costs what it documents, and at most ten times what it costs redis-server."""
