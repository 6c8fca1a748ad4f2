"""Real clients of MQTT, with their defaults, on a gateway."""
