"""A page that shows the streams of a Redis-protocol server, from a process of its own."""
