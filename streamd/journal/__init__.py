"""The journal: the append-only files from which a server's state comes back."""
