"""Client libraries and programs: each talks to a server by its protocol, and imports nothing of this server."""
