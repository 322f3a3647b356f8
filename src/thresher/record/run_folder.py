"""The names of all files and folders that a run folder may hold."""

# Of every run
SETTINGS = "run.toml"
MODEL = "model.json"  # how the model and its inputs are made again
HISTORY = "history.jsonl"  # one line an epoch
CHECKPOINT = "checkpoint.pt"
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
