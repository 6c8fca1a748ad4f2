"""Notes beside a stream: the progress of its sinks, and the rows of their attempts."""
