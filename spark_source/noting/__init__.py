"""Notes beside a stream: how far a sink is, and what its attempts brought."""
