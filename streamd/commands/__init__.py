"""The commands: one file for each stream command, one for each family of the others."""
