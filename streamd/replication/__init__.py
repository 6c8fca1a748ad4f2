"""Replication: a primary ships the units of its journal in frames, and a replica writes and applies them."""
