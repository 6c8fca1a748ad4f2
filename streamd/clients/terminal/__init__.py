"""Commands that watch a running server: `streamd tail`, `streamd top`, `streamd bench`.

They are a client of streamd or redis-server. The package imports redis-py, click and rich (the extra `cli`),
and nothing of the server.
"""
