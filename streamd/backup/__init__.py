"""Backup: a server's journal, copied over the protocol as one past state, and restored."""
