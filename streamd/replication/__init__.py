"""Replication: a primary ships the units of its journal in frames, and a replica applies them and writes them to its own.

`history.py` says which states are comparable, `frame.py` is the form on the wire, `frame_ring.py` keeps the last frames,
`feeding.py` is the primary's side, `following.py` and `applying.py` the replica's.
"""
