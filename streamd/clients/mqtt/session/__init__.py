"""The state of an MQTT session, without input or output: subscriptions, messages in flight, topic aliases."""
