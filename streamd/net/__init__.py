"""Sockets, timers, signals and threads around one engine."""
