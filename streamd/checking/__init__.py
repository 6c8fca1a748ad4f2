"""The checks of a data directory and a configuration file from a shell, without a running server."""
