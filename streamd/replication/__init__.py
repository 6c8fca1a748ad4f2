"""Replication: a primary ships the units of its journal in frames, which a replica writes and applies."""
