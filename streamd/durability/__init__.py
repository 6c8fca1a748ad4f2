"""The engine's journal from start to stop, and the barrier for replies."""
