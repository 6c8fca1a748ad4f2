"""Idempotence: which (producer, iid) made which entry, for how long it is remembered."""
