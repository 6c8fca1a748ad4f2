"""What a shell can check without a running server: a data directory, and a configuration file."""
