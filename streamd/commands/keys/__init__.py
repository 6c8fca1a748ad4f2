"""Commands about keys and about values that are no streams: a file for each family."""
