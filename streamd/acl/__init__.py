"""Access lists: users, their passwords, and which commands, keys and channels they may name."""
