"""The Redis protocol without I/O: requests in, replies out."""
