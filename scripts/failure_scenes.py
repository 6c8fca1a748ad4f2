"""The scenes of docs/exactly-once.md: driver, executors, server and stream in each row of its table."""

from dataclasses import dataclass, field

# What becomes of a row that an attempt brings.
WRITTEN, KNOWN, UNSENT, OPEN, LOST_REQUEST, LOST_REPLY = "+", "=", "-", "?", ">", "<"


@dataclass(frozen=True)
class Attempt:
    """An attempt at a task: the rows that it brings from `start` on, and the fate of each, a letter above."""

    start: float
    title: str
    rows: str  # names, with spaces between
    fates: str
    step: float = 1
    executor: int = 1


@dataclass(frozen=True)
class Bar:
    """A period of the driver's work, or of the server's absence."""

    lane: str
    start: float
    end: float
    text: str
    is_gone: bool = False


@dataclass(frozen=True)
class Cut:
    """The moment of the failure."""

    lane: str
    at: float
    text: str
    is_death: bool = True  # else something begins that should not: no cross


@dataclass(frozen=True)
class Scene:
    """A row of the table; alt: the picture's text for readers who do not see it. Times run from 0 to 32."""

    alt: str
    attempts: tuple[Attempt, ...]
    cuts: tuple[Cut, ...]
    bars: tuple[Bar, ...] = ()
    note: str = ""  # below the stream
    executors: int = 1
    marks: tuple[tuple[float, str], ...] = field(default=())  # what the server is told beside rows


ROWS = "a b c d e f"
PLAN = Bar("driver", 0, 4, "plans batch 7")


def commits(at: float) -> Bar:
    return Bar("driver", at, at + 4, "commits")


def ends(at: float) -> Bar:
    return Bar("driver", at, at + 5, "commits or stops")


def again(at: float, text: str = "starts again, batch 7") -> Bar:
    return Bar("driver", at, at + 7.5, text)


FIRST = Attempt(5, "attempt 0", ROWS, "+++---")
SECOND = Attempt(18, "attempt 1", ROWS, "===+++")
RERUN = Attempt(20, "attempt 0 of the new run", ROWS, "===+++")
TASK_DIES = Cut("executor", 8.2, "the task dies")
ASKED = "?  recognised, written twice, or noticed: the identity decides"
JOB_DIES = Cut("driver", 8.2, "the job ends")


def other_rows(
    alt: str,
    rows: str,
    first: str = ROWS,
    fates: str = "+++---",
    note: str = ASKED,
    job: str = "",
    what: str = "attempt 1",
) -> Scene:
    """A batch that is half written and comes again with other rows, because of Spark or a changed job."""
    if not job:
        second = Attempt(18, what, rows, OPEN * len(rows.split()))
        return Scene(alt, (Attempt(5, "attempt 0", first, fates), second), (TASK_DIES,), (PLAN, ends(27)), note)
    second = Attempt(20, "the new run brings others", rows, OPEN * len(rows.split()))
    bars = (PLAN, again(12, job), ends(27))
    return Scene(alt, (Attempt(5, "attempt 0", first, fates), second), (JOB_DIES,), bars, note)


def finished(alt: str, cut: Cut, job: str, title: str, note: str = "") -> Scene:
    """A batch that is committed and comes again from a checkpoint that is older than the sink."""
    return Scene(
        alt,
        (Attempt(5, "batch 7", "a b c", "+++"), Attempt(23, title, ROWS, OPEN * 6)),
        (cut,),
        (PLAN, Bar("driver", 9.5, 13, "commits"), again(19.6, job), Bar("driver", 29, 32, "stops?")),
        note or "?  never sent; with none there is no mark, and all rows are sent",
        marks=((11.2, "7 is done"),),
    )


SCENES = {
    "1": Scene(
        "The driver dies before it has planned the batch. Nothing was sent. It starts again, plans, and all six rows "
        "are written.",
        (Attempt(18, "attempt 0", ROWS, "++++++"),),
        (Cut("driver", 3, "dies before the plan is noted"),),
        (again(9), commits(26)),
        "no row was sent before",
    ),
    "2": Scene(
        "A task writes the rows a, b and c and dies. The second attempt brings all six: the server knows a, b and c, "
        "and adds d, e and f.",
        (FIRST, SECOND),
        (TASK_DIES,),
        (PLAN, commits(26)),
    ),
    "2a": Scene(
        "One connection breaks after row b is written and before its reply arrives. Another breaks before the server "
        "has row c. The task sends both rows again: the server knows b, and adds c.",
        (
            Attempt(5, "attempt 0", "a b", "+<"),
            Attempt(12, "connects again", "b c", "=>"),
            Attempt(20, "connects again", "c d e f", "++++"),
        ),
        (Cut("connection", 6.9, "b's reply is lost"), Cut("connection", 13.7, "c's request is lost")),
        (PLAN, commits(26)),
    ),
    "3": other_rows(
        "A task writes the rows a, b and c and dies. The second attempt brings the same six rows in another order.",
        "d b f a e c",
        what="attempt 1: another order",
    ),
    "3a": Scene(
        "Two tasks have the rows a, c, e and b, d, f. One has written its rows, the other only b when the stage runs "
        "again. The rows are now distributed differently: f, b and c to one task, a, d and e to the other.",
        (
            Attempt(5, "partition 0", "a c e", "+++"),
            Attempt(9, "partition 1", "b d f", "+--", executor=2),
            Attempt(18, "partition 0, again", "f b c", "???"),
            Attempt(22.5, "partition 1, again", "a d e", "???", executor=2),
        ),
        (Cut("executor 2", 10.2, "an executor is lost"),),
        (PLAN, Bar("driver", 12.5, 19, "stage runs again"), ends(27)),
        ASKED,
        executors=2,
    ),
    "4": Scene(
        "Two attempts of one task run at the same time, because the first is slow. Both attempts send every row. The "
        "server adds the first copy of each row, and recognises the second copy.",
        (
            Attempt(5, "attempt 0, slow", ROWS, "++++==", step=3.6),
            Attempt(13.4, "attempt 1, a copy", ROWS, "====++", step=1.4, executor=2),
        ),
        (Cut("executor 2", 13, "a copy starts", is_death=False),),
        (PLAN, commits(27)),
        executors=2,
    ),
    "5": Scene(
        "All six rows are written. The driver dies before the sink has committed. After the restart the batch runs "
        "again, and the server knows all six rows.",
        (Attempt(5, "attempt 0", ROWS, "++++++"), Attempt(22, "attempt 0 of the new run", ROWS, "======")),
        (Cut("driver", 12.5, "dies before the commit"),),
        (PLAN, again(16), commits(29)),
    ),
    "6": Scene(
        "All six rows are written and the sink has told the server that batch 7 is done. The driver dies before Spark "
        "has noted it. The batch runs again, and its tasks send nothing.",
        (Attempt(5, "attempt 0", ROWS, "++++++"), Attempt(23, "batch 7 is done: sends nothing", ROWS, "------")),
        (Cut("driver", 16.5, "dies before Spark notes it"),),
        (PLAN, Bar("driver", 11.8, 15.4, "commits"), again(19.6, "starts again: 7")),
        "the mark is in {stream}:spark and has no limit of time; with none there is no mark, and rows are sent again",
        marks=((13.6, "7 is done"),),
    ),
    "7": Scene(
        "A task fails four times, with the rows a, b and c written, and the job fails for good. What is written stays. "
        "After the restart the batch sends all six: the server knows a, b and c, and adds d, e and f.",
        (Attempt(5, "four attempts", ROWS, "+++---"), RERUN),
        (Cut("driver", 9.5, "the job fails"),),
        (PLAN, again(12.5), commits(28)),
        "abort deletes nothing",
    ),
    "8": Scene(
        "The server is killed after the rows a, b and c. It comes back from its journal with these rows and their "
        "names. The second attempt sends all six: the server knows a, b and c, and adds d, e and f.",
        (FIRST, SECOND),
        (Cut("server", 9.6, "killed"),),
        (PLAN, Bar("server", 10.4, 16.6, "loads its journal", is_gone=True), commits(26)),
        "as good as the server's disk: appendfsync always",
    ),
    "9": other_rows(
        "A batch of a, b, d and e is half written when the job ends. It is started again with another filter, which "
        "lets all six rows through.",
        ROWS,
        first="a b d e",
        fates="++--",
        job="new filter, batch 7",
    ),
    "9a": other_rows(
        "A batch is half written when the job ends. It is started again with code that changes the content of each "
        "row.",
        "a' b' c' d' e' f'",
        job="new code, batch 7",
    ),
    "9b": other_rows(
        "A batch that begins with x and y is half written when the job ends. It is started again without these two "
        "rows, which are in the stream.",
        "a b c d",
        first="x y a b c d",
        job="new filter, batch 7",
    ),
    "9c": other_rows(
        "A batch that begins with x is half written when the job ends. It is started again without that row, and the "
        "option onRowsChanged is continue, so the query goes on.",
        "a b c d e",
        first="x a b c d e",
        note="onRowsChanged=continue: a warning, where marker still stops",
        job="new filter, batch 7",
    ),
    "10": Scene(
        "A batch is half written when the job ends. It is started again after more than a day: the window is over, and "
        "the server has forgotten the names of a, b and c.",
        (FIRST, Attempt(20, "a day later", ROWS, "??????")),
        (JOB_DIES, Cut("server", 11.5, "the window is over", is_death=False)),
        (PLAN, again(12.5), ends(27)),
        ASKED,
    ),
    "10a": Scene(
        "A batch is half written when the job ends. It is started again after more than a day, when the window is "
        "over, and the option onWindowExpired is continue: the batch is written again.",
        (FIRST, Attempt(20, "a day later", ROWS, "??????")),
        (JOB_DIES, Cut("server", 11.5, "the window is over", is_death=False)),
        (PLAN, again(12.5), commits(27)),
        "onWindowExpired=continue: the batch is written again; marker has no window",
    ),
    "11": other_rows(
        "A task writes the rows a, b and c and dies. The second attempt computes other values for each row, as with "
        "rand().",
        "a2 b2 c2 d2 e2 f2",
        what="attempt 1: other values",
    ),
    "11a": other_rows(
        "A task writes the rows g, h and i and dies. The second attempt brings rows with different keys.",
        ROWS,
        first="g h i j k l",
        what="attempt 1: other keys",
    ),
    "12": finished(
        "Batch 7 is committed. The checkpoint is put back to what it was after batch 5. Batch 6 comes again, with rows "
        "that batches 6 and 7 have written, and others.",
        Cut("driver", 16.5, "an old checkpoint", is_death=False),
        "starts again: 6",
        "batch 6, from the old checkpoint",
    ),
    "12a": finished(
        "Batch 7 is committed with the rows a, b and c. The newest files of the checkpoint are removed, and "
        "Spark plans batch 7 anew, with six rows.",
        Cut("driver", 16.5, "newest files gone", is_death=False),
        "plans batch 7",
        "batch 7, planned anew",
    ),
    "12b": finished(
        "Batch 7 is committed with the rows a, b and c. Spark plans it anew with six rows, and the option "
        "onRowsChanged is continue, so the query goes on.",
        Cut("driver", 16.5, "newest files gone", is_death=False),
        "plans batch 7",
        "batch 7, planned anew",
        "onRowsChanged=continue: nothing is sent, and a warning gives the number of rows; with none all are sent",
    ),
}
