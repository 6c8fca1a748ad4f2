"""Kafka's option names and their counterparts here, for queries that move from Kafka."""

READ_OR_WRITTEN = {
    "topic": "use option stream, or streamColumn where the rows name their streams",
    "subscribe": "use option stream",
    "subscribepattern": "use option streamRegex, or streamPattern for a pattern such as orders-*",
    "assign": "use option stream: a stream has no partitions, its entries are divided by entriesPerPartition",
    "maxoffsetspertrigger": "use option maxEntriesPerTrigger",
    "minoffsetspertrigger": "use option minEntriesPerTrigger",
    "maxrecordsperpartition": "use option entriesPerPartition",
    "startingoffsetsbytimestamp": "use option startingTimestamp, which takes JSON, too",
    "endingoffsetsbytimestamp": "use option endingTimestamp, which takes JSON, too",
    "startingoffsetsbytimestampstrategy": "leave it out: behind the last entry there is nothing to read yet",
    "includeheaders": "leave it out: every field of an entry is read",
    "groupidprefix": "use option progressGroup to show the query's lag on the server",
    "fetchoffset.numretries": "use option timeout, how long the server is waited for",
    "fetchoffset.retryintervalms": "use option timeout, how long the server is waited for",
    "kafkaconsumer.polltimeoutms": "use option timeout, how long the server is waited for",
}
"""Options of Spark's Kafka source and sink, lower case."""

OF_CLIENT = {
    "bootstrap.servers": "use option url, such as redis://host:6379",
    "group.id": "use option progressGroup to show the query's lag on the server; nothing is read from a group",
    "client.id": "use option clientName",
    "security.protocol": "use rediss:// in url for TLS, username and passwordEnv for a user",
    "acks": "use option durability: none, fsync or replicas:N",
    "enable.idempotence": "leave it out: see exactlyOnce",
    "transactional.id": "leave it out: see exactlyOnce",
    "request.timeout.ms": "use option timeout",
    "max.poll.records": "use option pageSize",
    "batch.size": "use option pipeline, rows that are sent at once",
    "retries": "use option timeout, how long the server is waited for",
}
"""Options of Kafka's client, behind `kafka.`."""

PREFIX = "kafka."


def instead_of(lower: str) -> str | None:
    """Return the advice for an option of Kafka's, named in lower case; None for any other option."""
    if not lower.startswith(PREFIX):
        return READ_OR_WRITTEN.get(lower)
    name = lower[len(PREFIX) :]
    if name.startswith("ssl."):
        return "use rediss:// in url, and sslCa, sslCert, sslKey"
    if name.startswith("sasl."):
        return "use options username and passwordEnv"
    return OF_CLIENT.get(name, "leave it out, or give the client here an argument as redis.NAME")
