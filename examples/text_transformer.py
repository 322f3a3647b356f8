"""A small transformer on texts of different lengths, 40% of whose labels are wrong: a dict of tensors as inputs.

Texts are rows of token ids that are padded to one length, with a mask that says which tokens are there; a mapping goes
into the model by keyword, as Hugging Face's models take it. CRUST blends images, but token ids cannot be blended: it
leaves that out by itself; mix=None says so beforehand.
"""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from thresher import Examples, fit
from thresher.corruption import corrupt

CLASSES, WORDS, LONGEST = 4, 60, 24


def texts(count: int, seed: int) -> Examples:
    """Texts of 8 to 24 words, four of ten of which belong to the subject of the text."""
    draws = torch.Generator().manual_seed(seed)
    subjects = torch.arange(count) % CLASSES
    rows = []
    for subject in subjects.tolist():
        length = int(torch.randint(8, LONGEST + 1, (), generator=draws))
        any_word = torch.randint(1, WORDS, (length,), generator=draws)
        of_subject = 1 + subject * 10 + torch.randint(0, 10, (length,), generator=draws)
        rows.append(torch.where(torch.rand(length, generator=draws) < 0.4, of_subject, any_word))
    ids = pad_sequence(rows, batch_first=True)  # 0 is no word
    return Examples({"input_ids": ids, "attention_mask": (ids > 0).long()}, subjects, classes=CLASSES)


class Transformer(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        layer = nn.TransformerEncoderLayer(width, nhead=2, dim_feedforward=64, dropout=0.1, batch_first=True)
        self.layer, self.head = layer, nn.Linear(width, CLASSES)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        seen = self.layer(self.words(input_ids), src_key_padding_mask=attention_mask == 0)
        there = attention_mask[..., None].float()
        outputs: Tensor = self.head((seen * there).sum(1) / there.sum(1))
        return outputs


train, test = corrupt(texts(800, seed=0), "symmetric:0.4", seed=0), texts(400, seed=1)
found = {}
for method, known in (("standard", {}), ("prl-l", {"noise_rate": 0.4}), ("crust-central", {"mix": None})):
    run = fit(method, Transformer, train, test=test, epochs=15, batch=64, learning_rate=3e-3, **known)
    found[method] = run.last(5) or 0.0
    print(f"{method:10s} accuracy on right labels: {found[method]:.3f}")

labels = run.predict(test.subset(range(5)).inputs)
print(f"the first five texts are about {labels.tolist()}")
assert found["prl-l"] > found["standard"] + 0.02
assert found["crust-central"] > found["standard"] + 0.02
