"""MQTT 3.1.1 and 5.0 in bytes, without input or output: packets are parsed, judged and made."""
