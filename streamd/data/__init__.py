"""The databases: keys, their values, and the types that these may have."""
