"""The foundation of all rooms: options, limits, error texts, the time, the process."""
