"""PRL(L) in a training loop of your own: one call gives the weights, everything else stays as it was."""

import torch
from torch.nn.functional import cross_entropy

from thresher import load, signals, weigh
from thresher.corruption import corrupt
from thresher.models import build
from thresher.rules import KeepSmallest

digits = load("digits")
train = corrupt(digits.train, "symmetric:0.4", seed=0)
rule = KeepSmallest(by=signals.output_gradient_norm, fraction=0.6)

torch.manual_seed(0)
model = build("mlp", input_shape=train.input_shape, outputs=10)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

for _ in range(20):
    for index in torch.randperm(len(train)).split(64):
        inputs, targets = train.inputs[index], train.targets[index]
        outputs = model(inputs)
        weights = weigh(rule, model, inputs, targets, outputs=outputs)
        losses = cross_entropy(outputs, targets, reduction="none")
        loss = (weights * losses).sum() / weights.sum().clamp_min(1e-12)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

with torch.no_grad():
    accuracy = (model(digits.test.inputs).argmax(1) == digits.test.targets).float().mean()
print(f"accuracy on clean test digits after training on 40% wrong labels: {accuracy:.3f}")
assert accuracy > 0.9
