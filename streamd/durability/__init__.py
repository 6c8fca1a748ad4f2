"""The engine's journal from start to stop, and when replies may leave."""
