"""Where mosquitto 2.0.11 does otherwise than the standard says: the cases that find it, by version."""

OF_MOSQUITTO: dict[int, dict[str, str]] = {4: {}, 5: {}}
