"""Backup: a server's journal, copied over the protocol as a state that was, and put back."""
