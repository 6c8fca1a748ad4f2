"""Connections to a server, a cluster or a master that Sentinels watch."""
