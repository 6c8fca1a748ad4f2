"""MQTT in front of topic logs: devices publish into the log and subscribe to it."""
