"""Hugging Face's Trainer on texts of which a third has a wrong label: PRL(L), and L2RW with a few trusted texts.

    python examples/huggingface_trainer.py

The trainer is the one you have, with `weigher=`: ids travel as the column `id` (places, where there is none), further
weights as the column `weight`. `weighted(SFTTrainer)` does the same for TRL. The model is a very small BERT from random
weights, so that this runs in seconds.
"""

import tempfile
from typing import Any

import torch
from transformers import BertConfig, BertForSequenceClassification, TrainingArguments

from thresher.trainers import ThresherTrainer, Weigher

WORDS, LENGTH = 60, 12


def texts(count: int, seed: int) -> list[dict[str, Any]]:
    """Texts of two subjects, to which most of the words belong."""
    draws = torch.Generator().manual_seed(seed)
    items = []
    for place in range(count):
        label = place % 2
        any_word = torch.randint(1, WORDS, (LENGTH,), generator=draws)
        of_subject = 1 + 20 * label + torch.randint(0, 20, (LENGTH,), generator=draws)
        ids = torch.where(torch.rand(LENGTH, generator=draws) < 0.8, of_subject, any_word)
        items.append({"input_ids": ids.tolist(), "attention_mask": [1] * LENGTH, "labels": label})
    return items


def model() -> BertForSequenceClassification:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    sizes["intermediate_size"] = 64
    return BertForSequenceClassification(BertConfig(vocab_size=WORDS, max_position_embeddings=LENGTH, **sizes))


def accuracy(trainer: Any) -> float:
    predicted = trainer.predict(test)
    return float((predicted.predictions.argmax(1) == predicted.label_ids).mean())


torch.set_num_threads(1)
right, trusted, test = texts(600, seed=0), texts(30, seed=1), texts(200, seed=2)
wrong = torch.rand(len(right), generator=torch.Generator().manual_seed(3)) < 1 / 3
train = [{**item, "labels": 1 - item["labels"]} if bad else item for item, bad in zip(right, wrong, strict=True)]

with tempfile.TemporaryDirectory() as folder:
    settings = TrainingArguments(
        folder, num_train_epochs=8, per_device_train_batch_size=32, learning_rate=5e-3, use_cpu=True, report_to=[],
        save_strategy="no", logging_strategy="no", disable_tqdm=True, seed=0,
    )  # fmt: skip
    methods: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
        ("standard", {}, {}),
        ("prl-l", {"noise_rate": 1 / 3}, {}),
        ("l2rw", {}, {"clean_dataset": trusted}),
    )
    for method, known, more in methods:
        weigher = Weigher(method, **known)
        trainer = ThresherTrainer(model=model(), args=settings, train_dataset=train, weigher=weigher, **more)
        trainer.train()
        ids, trust = weigher.ledger.trust()
        gap = trust[~wrong[ids]].mean() - trust[wrong[ids]].mean()
        print(f"{method:9} accuracy on right labels {accuracy(trainer):.3f}, right labels trusted more by {gap:.2f}")
        assert gap > 0.05
