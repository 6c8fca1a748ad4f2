"""Tests of sessions, on streamd and on redis-server."""
