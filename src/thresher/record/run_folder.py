"""The names of all files and folders that a run folder may hold, and what its records are made of."""

import re
from typing import NotRequired, TypedDict

# Of every run
SETTINGS = "run.toml"
MODEL = "model.json"  # how the model and its inputs are made again
HISTORY = "history.jsonl"  # one line an epoch
CHECKPOINT = "checkpoint.pt"
SHARDS = "shards"  # a folder: parameters that were never in one memory, where processes shared them
LEDGER = "ledger"  # a folder: what was decided about every example, every epoch
EXAMPLES = "examples.parquet"  # trust in every example; written last: a run that has it is finished
PREVIEWS = "previews.npz"  # pictures or rows of the least trusted examples
NOISE_RATE = "noise_rate.json"  # where it was estimated by folds
TEACHER = "teacher.parquet"  # how sure and how right a teacher is on the validation set
REPORT = "report.html"

# Of an audit
ISSUES = "issues.parquet"  # one row for every example, the worst first
ISSUES_CSV = "issues.csv"  # the same, for people and spreadsheets
ISSUES_SUMMARY = "issues.json"  # what they say together: the noise rate, the noise matrix, duplicates
AUDIT = "audit"  # a folder: the trainings that judged examples they had not seen
OF_AN_AUDIT = (ISSUES, ISSUES_CSV, ISSUES_SUMMARY, PREVIEWS, AUDIT)

# Runs inside a run, each in a folder of its own
STAGES = "stages"
FINE_TUNED = "fine-tuned"
ROUNDS = "rounds"

# Of active learning
LOOP = "loop.json"  # one record a round
PICKS = "picks"  # a folder: the inputs that each round chose
LOOP_REPORT = "loop.html"
QUERIES = "queries"  # a folder of questions, each a folder with TASKS, INTERFACE, PREVIEW and ANSWERS
ANSWERS = "answers.csv"  # of a run: all answers so far; of a question: the sheet to fill in
TASKS = "tasks.json"
INTERFACE = "interface.xml"
PREVIEW = "preview.html"


RECALL = "recall_"  # with which the names of the scores of single classes begin, before the number of the class
RECALL_OF_NONE = re.compile(rf"{RECALL}(?!\d+\Z)")  # what begins so, and goes on otherwise
WRITE_ANEW = "resume or repeat that run to write it anew"  # what helps where a file of a run is damaged


class NoiseRate(TypedDict):
    """A share of wrong targets; the rate is None where it cannot be told."""

    rate: float | None
    low: float | None
    high: float | None
    why: str


class Epoch(TypedDict, total=False):
    """What history keeps of one epoch; observers may add to it."""

    epoch: int
    steps: int
    batch: int
    skipped: float | None
    metric: str
    score: float | None
    loss: float | None
    kept: float | None
    effective: float | None
    clean_share: float | None
    clean_weight: float | None
    train_score: float | None
    learning_rate: float | None
    seconds: float | None
    scores: dict[str, float | None]
    noise_rate: NoiseRate | None


def odd_rate(found: NoiseRate) -> float | None:
    """The first number of a noise rate that is no share, or None."""
    return next((each for each in (found["rate"], found["low"], found["high"]) if each and not 0 <= each <= 1), None)


class LoopRound(TypedDict):
    """What is kept of one round of active learning."""

    labelled: int
    metric: str
    score: float | None
    picked: list[int]
    clean_picks: float | None
    seconds: float | None
    by: NotRequired[str | None]
    round: NotRequired[int]


class LoopIdentity(TypedDict):
    """What tells one loop from another, as far as it is read again."""

    by: str | None
    seed: int
    avoid: NotRequired[str | None]


class Loop(TypedDict):
    """What the folder of a loop remembers."""

    identity: LoopIdentity
    class_names: NotRequired[list[str] | None]
    rounds: list[LoopRound]
