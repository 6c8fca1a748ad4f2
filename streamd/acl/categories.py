"""The categories of commands that rules can name, and the commands of Redis 8.10 that only rules know here."""

from typing import Final

# In the order in which ACL CAT lists them.
CATEGORIES: Final = tuple(
    str.split(
        "keyspace read write set sortedset list hash string array bitmap hyperloglog geo stream pubsub admin fast slow "
        "blocking dangerous connection transaction scripting"
    )
)

# Rules that were written for Redis name commands that this server may not have (`-migrate`): they are taken, and come
# back in ACL LIST, but allow and forbid nothing. Their categories, and their names.
_OTHERS: Final = {
    "": "vadd vcard vdim vemb vgetattr vinfo vismember vlinks vrandmember vrange vrem vsetattr vsim",
    "admin slow dangerous": (
        "backup|abort backup|cleanup backup|list backup|seal backup|start backup|status cluster|addslots "
        "cluster|addslotsrange cluster|bumpepoch cluster|count-failure-reports cluster|delslots "
        "cluster|delslotsrange cluster|failover cluster|flushslots cluster|forget cluster|meet "
        "cluster|migration cluster|replicas cluster|replicate cluster|reset cluster|saveconfig "
        "cluster|set-config-epoch cluster|setslot cluster|slaves cluster|syncslots failover hotkeys|get "
        "hotkeys|reset hotkeys|start hotkeys|stop module|load module|loadex module|unload psync replconf "
        "replicaof slaveof sync"
    ),
    "fast connection": "asking readonly readwrite",
    "hash slow": "himport himport|discard himport|discardall himport|prepare",
    "hyperloglog admin slow dangerous": "pfselftest",
    "keyspace read slow": "dump",
    "keyspace write slow dangerous": "migrate restore restore-asking trimslots",
    "pubsub fast": "spublish",
    "pubsub slow": "ssubscribe sunsubscribe",
    "read array fast": "arcount arget arlen armget arnext",
    "read array slow": "argetrange argrep arinfo arlastitems arop arscan",
    "read fast": "lolwut",
    "read geo slow": "geodist geohash geopos georadius_ro georadiusbymember_ro geosearch",
    "read hyperloglog slow": "pfcount",
    "slow": (
        "cluster cluster|countkeysinslot cluster|getkeysinslot cluster|help cluster|info cluster|keyslot "
        "cluster|links cluster|myid cluster|myshardid cluster|nodes cluster|shards cluster|slot-stats "
        "cluster|slots hotkeys hotkeys|help"
    ),
    "slow scripting": "script|debug",
    "write array fast": "ardel arinsert armset arseek arset",
    "write array slow": "ardelrange arring",
    "write geo slow": "geoadd georadius georadiusbymember geosearchstore",
    "write hash slow": "himport|set",
    "write hyperloglog admin slow dangerous": "pfdebug",
    "write hyperloglog fast": "pfadd",
    "write hyperloglog slow": "pfmerge",
}
OTHER_COMMANDS: Final = {name: kinds.split() for kinds, names in _OTHERS.items() for name in names.split()}
