"""The script engine: Lua 5.1 in a sandbox, which knows commands only as a function to call.

`Scripts` (streamd/lua/scripts.py) is what a server uses; `SideRun` (streamd/lua/side_run.py) lets it answer
others while a script runs for long.
"""
