"""Looking at a running server from a shell: `streamd tail`, `streamd top`, `streamd bench`.

A client like any other, of streamd or redis-server: it imports redis-py, click and rich (the extra `streamd[cli]`) and
nothing of the server.
"""
