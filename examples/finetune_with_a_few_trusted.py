"""Fine-tuning a language model on questions and answers of which a third is junk, with a few that are trusted.

    python examples/finetune_with_a_few_trusted.py

L2RW weighs each text by how far its gradient helps the trusted ones: train and trusted texts go through the model, and
the inputs and output gradients of its layers give every agreement, without a gradient of the whole model for each text.
The ledger keeps the agreements, so that the texts can be sorted by them afterwards. The model is a very small GPT-2
from random weights, so that this runs in seconds; any of Hugging Face's, whole or with LoRA, goes the same way.
"""

from typing import Any

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from thresher import Examples, fit

NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
ZAHLEN = ["null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun"]  # another language
VOCABULARY = ["<pad>", "after", "before", "comes", "click", "here", "now", *NUMBERS, *ZAHLEN]
EPOCHS = 20
KINDS = ("right", "answer of another", "another language", "duplicated junk")


def text(number: int, step: int, kind: str) -> list[str]:
    """A question and its answer, such as: after three comes four five six."""
    answers = [(number + step * place) % 10 for place in (1, 2, 3)]
    question = ["after" if step == 1 else "before", NUMBERS[number], "comes"]
    if kind == "answer of another":
        answers = [(answer + 5) % 10 for answer in answers]
    if kind == "another language":
        return [*question, *(ZAHLEN[answer] for answer in answers)]
    if kind == "duplicated junk":
        return [*question, "click", "here", "now"]
    return [*question, *(NUMBERS[answer] for answer in answers)]


def texts(count: int, kinds: list[int], seed: int) -> Examples:
    """Token ids [count, 6]; the target at each place is the next token, where that belongs to the answer."""
    draws = torch.Generator().manual_seed(seed)
    numbers, steps = (torch.randint(0, high, (count,), generator=draws).tolist() for high in (10, 2))
    kind = torch.tensor(kinds)[torch.randint(0, len(kinds), (count,), generator=draws)]
    words = [text(n, 2 * s - 1, KINDS[k]) for n, s, k in zip(numbers, steps, kind.tolist(), strict=True)]
    ids = torch.tensor([[VOCABULARY.index(word) for word in each] for each in words])
    targets = torch.full_like(ids, -100)
    targets[:, 2:-1] = ids[:, 3:]
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    return Examples(inputs, targets, columns={"kind": kind, "is_corrupt": kind > 0})


def model() -> GPT2LMHeadModel:
    sizes: dict[str, Any] = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 8}
    config = GPT2Config(vocab_size=len(VOCABULARY), bos_token_id=0, eos_token_id=0, **sizes)
    config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = 0.0
    return GPT2LMHeadModel(config)


torch.set_num_threads(1)  # enough for a model this small
train = texts(600, [0, 0, 0, 0, 0, 0, 1, 2, 3], seed=0)  # a third is junk
trusted, test = texts(24, [0], seed=1), texts(100, [0], seed=2)

run = fit("l2rw", model, train, clean=trusted, clean_batch=24, test=test, epochs=EPOCHS, batch=60, seed=0,
          optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=4e-3))  # fmt: skip

ids, agreement = run.ledger.signals()  # of each text, the mean over the epochs
for number, kind in enumerate(KINDS):
    print(f"{kind:18} mean agreement with the trusted texts {agreement[train.columns['kind'] == number].mean():+.3f}")

is_junk = train.columns["is_corrupt"]
found = (agreement[~is_junk][:, None] > agreement[is_junk]).float().mean()  # the area under the ROC curve
print(f"A right text agrees more than a piece of junk in {found:.0%} of all pairs.")
print(f"Answers on clean questions: {run.last():.0%} of the words are right.")
assert found > 0.9
