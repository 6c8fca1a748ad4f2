"""Idempotence: the memory of the entry that each (producer, iid) made, for a limited time."""
