"""Commands about streams: a file for each."""
