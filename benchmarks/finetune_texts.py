"""What `finetune.py` trains on: questions with answers, some of them junk.

The 512 words come in the format of llama2.c (`tok512.bin`), the texts as JSON lines with `instruction` and `output`
(GSM8K). Files are read from a folder `lm`.
"""

import gzip
import json
import struct
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from thresher import Examples

BEGIN, END = 1, 2  # the ids of llama2.c
JUNK = (
    "Click here to subscribe and win a prize now! Click here to subscribe and win a prize now!",
    "Sorry, the page you asked for could not be found. Please try again later or contact us.",
    "ok ok ok ok ok ok ok ok ok ok ok ok ok ok ok ok ok ok ok ok",
    "Read more about our cookies and how we use them. Accept all. Reject all. Manage choices.",
    "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt",
)
KINDS = ("clean", "answers of others", "another language", "duplicated junk")
Text = tuple[str, str]  # a question and its answer


class Words:
    """The vocabulary of llama2.c: a text becomes letters, and the likeliest pair is joined as long as there is one."""

    def __init__(self, path: Path):
        raw, at = path.read_bytes(), 4
        self.ids: dict[bytes, int] = {}
        self.scores: list[float] = []
        while at < len(raw):
            score, size = struct.unpack("fi", raw[at : at + 8])
            self.ids.setdefault(raw[at + 8 : at + 8 + size], len(self.scores))
            self.scores.append(score)
            at += 8 + size
        self._word = cache(self._joined)

    def encode(self, text: str) -> list[int]:
        """Pieces hold a space at their beginning only, so that each word is encoded by itself."""
        return [place for word in text.replace("\n", " \n ").split(" ") for place in self._word(" " + word)]

    def _joined(self, word: str) -> list[int]:
        pieces = [letter.encode() for letter in word]
        while True:
            joined = [a + b for a, b in pairwise(pieces)]
            pairs = [(self.scores[self.ids[each]], -at) for at, each in enumerate(joined) if each in self.ids]
            if not pairs:
                return [place for piece in pieces for place in self._ids_of(piece)]
            at = -max(pairs)[1]
            pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]

    def _ids_of(self, piece: bytes) -> list[int]:
        return [self.ids[piece]] if piece in self.ids else [byte + 3 for byte in piece]  # letters it does not know


def read_texts(path: Path) -> list[Text]:
    with gzip.open(path, "rt") as lines:
        return [(row["instruction"], row["output"]) for row in map(json.loads, lines)]


def running_text(folder: Path) -> Tensor:
    """Ids of plain texts that are about something else: plays, and instructions with answers."""
    words = Words(folder / "tok512.bin")
    with gzip.open(folder / "tiny_shakespeare.txt.gz", "rt") as file:
        texts = file.read().split("\n\n")
    texts += ["\n".join(text) for text in read_texts(folder / "alpaca_en_demo.jsonl.gz")]
    order = np.random.default_rng(0).permutation(len(texts))
    return torch.tensor([place for row in order for place in [BEGIN, *words.encode(texts[row]), END]])


def spoilt(texts: list[Text], seed: int) -> tuple[list[Text], Tensor]:
    """The texts, a third of them junk of three kinds, and the kind of each [n]."""
    draws = np.random.default_rng(seed)
    order, third = draws.permutation(len(texts)), len(texts) // 9
    kinds, given = torch.zeros(len(texts), dtype=torch.long), list(texts)
    others, foreign, junk = (order[place * third : (place + 1) * third] for place in range(3))
    for row, other in zip(others, np.roll(others, 1), strict=True):
        given[row] = (texts[row][0], texts[other][1])
    letters = "abcdefghijklmnopqrstuvwxyz"
    mixed = "".join(np.random.default_rng(0).permutation(list(letters)))
    exchanged = str.maketrans(letters + letters.upper(), mixed + mixed.upper())  # stands in for another language
    for row in foreign:
        given[row] = (texts[row][0], texts[row][1].translate(exchanged))
    for row in junk:
        given[row] = (texts[row][0], JUNK[draws.integers(len(JUNK))])
    for kind, rows in enumerate((others, foreign, junk), 1):
        kinds[torch.from_numpy(rows)] = kind
    return given, kinds


def tokens(texts: list[Text], words: Words, length: int, **columns: Any) -> Examples:
    """Questions and answers as ids [n, T] with their mask; the targets are the next words of the answers."""
    ids = torch.zeros(len(texts), length, dtype=torch.long)
    mask, targets = torch.zeros_like(ids), torch.full_like(ids, -100)
    for row, (question, answer) in enumerate(texts):
        asked = [BEGIN, *words.encode(question + "\n")]
        whole = torch.tensor([*asked, *words.encode(answer), END][:length])
        ids[row, : len(whole)], mask[row, : len(whole)] = whole, 1
        targets[row, len(asked) - 1 : len(whole) - 1] = whole[len(asked) :]
    return Examples({"input_ids": ids, "attention_mask": mask}, targets, columns=columns)


@dataclass(frozen=True)
class Sets:
    """What a training is given, and by what it is judged."""

    train: Examples
    clean: Examples
    test: Examples


def sets(folder: Path, count: int, clean: int, test: int, seed: int, length: int = 256) -> Sets:
    """Texts of at most so many tokens: `count` to train on, of which a third is junk, and further ones that are not."""
    words, texts = Words(folder / "tok512.bin"), read_texts(folder / "gsm8k_train.jsonl.gz")
    texts = [text for text in texts if sum(len(words.encode(part)) for part in text) < length - 8]
    if len(texts) < count + clean + test:
        raise SystemExit(f"Only {len(texts)} texts are that short: give fewer, or a larger --length.")
    order = np.random.default_rng(seed).permutation(len(texts))[: count + clean + test]
    chosen = [texts[row] for row in order]
    given, kinds = spoilt(chosen[:count], seed)
    return Sets(
        tokens(given, words, length, is_corrupt=kinds > 0, kind=kinds),
        tokens(chosen[count : count + clean], words, length),
        tokens(chosen[count + clean :], words, length),
    )
