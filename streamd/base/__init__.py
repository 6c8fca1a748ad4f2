"""What everything stands on: options, limits, error texts, the time, the process."""
