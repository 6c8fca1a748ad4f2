"""The gateway: connections of MQTT clients, their sessions, and the delivery of messages from the logs."""
