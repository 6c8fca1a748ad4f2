"""The tests: unit, property, protocol, differential, crash, Spark."""
