"""`streamd mqtt bench`: a load on any MQTT broker, and what it costs the broker."""
