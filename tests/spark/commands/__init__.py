"""Commands from Spark to MQTT devices, exactly once, while everything on their way is killed."""
