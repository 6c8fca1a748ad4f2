"""Spark on a small cluster while its processes, its server and its connections are killed: each row comes once."""
