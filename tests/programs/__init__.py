"""Programs that people run on Redis, driving streamd."""
