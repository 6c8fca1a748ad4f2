"""The notes on disk of a segment file: which values of one field its rows have, so that searches read less."""
