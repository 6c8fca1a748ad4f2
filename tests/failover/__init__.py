"""Real Sentinels, servers whose machines are destroyed or cut off again and again, and a look at what clients were told."""
