"""The script engine: Lua 5.1 in a sandbox, which knows commands only as a function to call.

`Scripts` (streamd/lua/scripts.py) is its interface; `SideRun` (streamd/lua/side_run.py) lets the server serve
other clients during a long script.
"""
