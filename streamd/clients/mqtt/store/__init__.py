"""What an MQTT gateway keeps in its store: topic logs, sessions, retained messages, wills."""
