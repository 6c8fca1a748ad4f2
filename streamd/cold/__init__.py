"""Sealed segments in files: their bytes, the files of a directory with an index each, and a cache of their blocks."""
