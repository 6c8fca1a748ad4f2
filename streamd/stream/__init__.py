"""The stream: its log, its consumer groups and the types that name their parts."""
