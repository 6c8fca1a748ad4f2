"""The categories of commands that rules can name, and the commands of Redis 7.0 that only rules know here."""

from typing import Final

# In the order in which ACL CAT lists them.
CATEGORIES: Final = tuple(
    str.split(
        "keyspace read write set sortedset list hash string bitmap hyperloglog geo stream pubsub admin fast slow "
        "blocking dangerous connection transaction scripting"
    )
)

# Rules that were written for Redis name commands that this server may not have (`-migrate`): they are taken, and come
# back in ACL LIST, but allow and forbid nothing. Their categories, and their names.
_OTHERS: Final = {
    "admin slow dangerous": "cluster|addslots cluster|addslotsrange cluster|bumpepoch cluster|count-failure-reports "
    "cluster|delslots cluster|delslotsrange cluster|failover cluster|flushslots cluster|forget cluster|meet "
    "cluster|replicas cluster|replicate cluster|reset cluster|saveconfig cluster|set-config-epoch cluster|setslot "
    "cluster|slaves failover latency|doctor latency|graph latency|histogram module|list module|load module|loadex "
    "module|unload psync replconf replicaof slaveof sync",
    "fast connection": "asking readonly readwrite",
    "hyperloglog admin slow dangerous": "pfselftest",
    "keyspace read slow": "dump",
    "keyspace write slow dangerous": "migrate restore restore-asking",
    "pubsub fast": "spublish",
    "pubsub slow": "ssubscribe sunsubscribe",
    "read bitmap fast": "bitfield_ro",
    "read fast": "lolwut",
    "read geo slow": "geodist geohash geopos georadius_ro georadiusbymember_ro geosearch",
    "read hyperloglog slow": "pfcount",
    "slow": "cluster cluster|countkeysinslot cluster|getkeysinslot cluster|help cluster|info cluster|keyslot "
    "cluster|links cluster|myid cluster|nodes cluster|shards cluster|slots memory|stats module module|help",
    "slow scripting": "script|debug",
    "write bitmap slow": "bitfield",
    "write geo slow": "geoadd georadius georadiusbymember geosearchstore",
    "write hyperloglog admin slow dangerous": "pfdebug",
    "write hyperloglog fast": "pfadd",
    "write hyperloglog slow": "pfmerge",
}
OTHER_COMMANDS: Final = {name: kinds.split() for kinds, names in _OTHERS.items() for name in names.split()}
