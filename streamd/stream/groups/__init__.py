"""Consumer groups: how far they have read, and their pending entries."""
