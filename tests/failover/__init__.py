"""Real Sentinels, servers whose machines are destroyed or cut off again and again, and what clients were told."""
