"""Sample journals with every kind of record, to be kept: later versions have to start on them.

`python -m tests.crash.sample_journal tests/crash/journals/NAME` writes what the version at hand makes of the history,
with its state. That is done once for each format; what is there is never written anew.
"""

import sys
from pathlib import Path
from pprint import pformat

from tests.crash.histories import play
from tests.crash.restartable import DIRECTORY, INCREMENT, Restartable
from tests.crash.state_dump import dump

JOURNAL = f"{DIRECTORY}/appendonlydir/"

# Each line is a turn; a `;` separates requests of one turn. The clock moves 7 ms between two.
STREAMS = """
XADD s 1-1 f v ; XADD s 2-1 f v g w ; XADD s 2-* f 3
XADD s * f a ; XADD s * f b ; XADD s * f c ; XADD s * f d
XADD s IDMP p1 i1 * n 1 ; XADD s IDMP p1 i2 * n 2 ; XADD s IDMP p1 i3 * n 3 ; XADD s IDMP p2 i1 * n 4
XADD s IDMP p1 i1 * n 1
XADD s IDMP p1 i2 * n 2 ; XADD s IDMP p1 i4 * n 5 ; XADD s IDMP p1 i4 * n 5 ; XADD s IDMP p1 i5 * n 6
XADD s IDMPAUTO p3 * n 1 ; XADD s IDMPAUTO p3 * n 2 ; XADD s IDMPAUTO p3 * n 3 ; XADD s IDMPAUTO p3 * n 1
CONFIG SET stream-idmp-maxsize 3 stream-idmp-duration 90
XADD small IDMP p 1 * f v ; XADD small IDMP p 2 * f v ; XADD small IDMP p 3 * f v ; XADD small IDMP p 4 * f v
XCFGSET s IDMP-DURATION 50 IDMP-MAXSIZE 4 ; XADD s IDMP p1 i6 * n 6 ; XADD s IDMP p1 i7 * n 7
XADD other MAXLEN = 2 1-1 f v ; XADD other MAXLEN = 2 1-2 f v ; XADD other MAXLEN = 2 1-3 f v
XIDMP CFGSET other DURATION 60 MAXSIZE 5 ; XADD other IDMP ~%p \u2603 * f v
XIDMPRECORD other p4 recorded 1-3 ; XADD other IDMP p4 recorded * f v
XDEL s 1-1 ; XTRIM s MAXLEN 14 ; XTRIM s MINID 3 ; XSETID s 9999999999999-0 ENTRIESADDED 50 MAXDELETEDID 5-5
MULTI ; XADD t IDMP p3 i1 * in transaction ; SET m1 x ; SELECT 3 ; SET m2 y ; XADD t * a b ; EXEC
SELECT 0
XGROUP CREATE g1 g 0 MKSTREAM ; XGROUP CREATE g1 h $ ; XGROUP CREATE g1 gone 0 ; XGROUP DESTROY g1 gone
XADD g1 1-0 f 1 ; XADD g1 2-0 f 2 ; XADD g1 3-0 f 3 ; XADD g1 4-0 f 4 ; XADD g1 5-0 f 5 ; XADD g1 6-0 f 6
XGROUP CREATECONSUMER g1 g idle ; XGROUP CREATECONSUMER g1 g left ; XGROUP DELCONSUMER g1 g left
XREADGROUP GROUP g ann COUNT 4 STREAMS g1 > ; XREADGROUP GROUP g bob NOACK COUNT 1 STREAMS g1 >
XREADGROUP GROUP g ann STREAMS g1 0 ; XREADGROUP GROUP h eve STREAMS g1 > ; XGROUP SETID g1 h 4 ENTRIESREAD 4
XACK g1 g 1-0 ; XCLAIM g1 g bob 0 2-0 IDLE 5000 RETRYCOUNT 7 ; XAUTOCLAIM g1 g carl 0 3 COUNT 1
XNACK g1 h FAIL IDS 2 5-0 2-0 ; XNACK g1 h SILENT IDS 1 4-0 ; XNACK g1 h FATAL IDS 1 1-0
XDEL g1 4-0 ; XACKDEL g1 g DELREF IDS 1 3-0 ; XDELEX g1 DELREF IDS 1 6-0
XADD trimmed IDMP p a * f v ; XADD trimmed IDMP p b * f v ; XTRIM trimmed MAXLEN 1
""".strip().splitlines()
OTHERS = """
SET k v PX 100000 ; SET k2 v ; APPEND k2 w ; SETRANGE k2 1 XY ; INCRBY n 5 ; INCRBYFLOAT n 0.5 ; GETDEL k2
HSET h a 1 b 2 c 3 ; HDEL h a ; HINCRBY h b 5 ; HSET h '' '' ; EXPIRE h 50 ; PERSIST h ; PEXPIRE h 70000
RPUSH l a b c d ; LPUSH l z ; LPOP l ; RPOP l 2 ; SADD set a b c ; SREM set b
MSET x 1 y 2 ; RENAME x z ; COPY s s2 ; COPY z z DB 2 ; MOVE y 1 ; SETEX short 1 v ; DEL n
SELECT 1 ; SET in-one 1 ; XADD s IDMP p 1 * in one ; XADD s IDMP p 1 * in one ; SELECT 5 ; SET five 5
FLUSHDB ; SET five again ; SWAPDB 5 6 ; SELECT 0
""".strip().splitlines()
AFTER_A_REWRITE = """
XADD s IDMP p1 i7 * n 7 ; XADD s IDMP p1 i8 * n 8 ; XADD new * f v ; XADD new * f v ; XADD new * f v
XADD g1 * f 7 ; XREADGROUP GROUP g ann COUNT 1 STREAMS g1 > ; XACK g1 h 3-0 ; XNACK g1 h FAIL IDS 1 1-0
SET k after ; HSET h later 1 ; SADD set d ; RPUSH l later ; SELECT 6 ; DEL five ; SELECT 0
""".strip().splitlines()


def samples() -> dict[str, Restartable]:
    """Return a server with one increment whose end was torn and cut off once, and one with a base."""
    torn = Restartable()
    play(torn, STREAMS)
    play(torn, ["SET one whole ; SET two lost"])
    del torn.disk.names[INCREMENT].data[-5:]
    torn = torn.restart()
    play(torn, OTHERS)
    rewritten = Restartable()
    play(rewritten, STREAMS + OTHERS)
    rewritten.rewrite()
    play(rewritten, AFTER_A_REWRITE)
    return {"increment": torn, "rewritten": rewritten}


def write(directory: Path) -> None:
    """Write each sample's files, and beside them `state`: the clock and what `dump` says, as Python writes it."""
    for name, server in samples().items():
        target = directory / name
        target.mkdir(parents=True)
        for path, inode in server.disk.names.items():
            if path.startswith(JOURNAL):
                (target / path.removeprefix(JOURNAL)).write_bytes(inode.data)
        text = pformat((server.clock.now_ms(), dump(server.engine)), width=110)
        (target / "state").write_text(text + "\n", encoding="ascii")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
