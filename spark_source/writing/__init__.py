"""Writing: the rows of tasks, so that writing them again adds nothing."""
