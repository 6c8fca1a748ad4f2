"""Redis's binary form of values, as DUMP payloads and RDB files hold them; without I/O."""
