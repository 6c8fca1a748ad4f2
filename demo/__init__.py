"""The demo: retrying producers, a stream, a killed Spark job, and a count of lost and duplicated entries."""
