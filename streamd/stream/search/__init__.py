"""Searching a log by the value of a field."""
