"""A request to its reply: turns, admission, batches, memory."""
