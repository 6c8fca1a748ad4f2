"""Benchmarks: streamd beside redis-server, in pairs, in one run."""
