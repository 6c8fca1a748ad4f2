"""Commands on keys, and on values other than streams: a file for each family."""
