"""Faults that were seen from outside, each with the line of the list that told of it in its name."""
