"""A weigher: the rules of a recipe in a training loop that is not ours, and the ledger of what they decided."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from thresher.core.errors import ThresherError, is_whole, refuse_unless
from thresher.core.evidence import Evidence
from thresher.core.recipe import Recipe
from thresher.core.rule import needs_of, signals_of
from thresher.core.seeding import derive, generator
from thresher.core.trees import one_tensor
from thresher.engine.loop.feed import CleanStream
from thresher.engine.start.checks import check_recipe
from thresher.engine.step.step import note_of, shares_of
from thresher.engine.weigh import Looked, decided, look
from thresher.objectives import as_objective
from thresher.trainers import state
from thresher.trainers.epoch_notes import Told
from thresher.trainers.given import as_set, refuse_other_batch, refuse_other_settings, refuse_other_weights
from thresher.trainers.network import Network, called, unwrapped, with_ids
from thresher.trainers.processes import from_all, of_all, processes
from thresher.trainers.recipes import recipe_for
from thresher.trainers.sweeps import EpochWeights
from thresher.trainers.written import Written


class Weigher:
    """How much each example of a batch counts in a user's training loop: `loss` in place of the loss of the loop.

    what        a method by name, a Recipe or a rule; a recipe's mix, views and draw are left out, with a warning
    noise_rate  the share of wrong targets, for methods by name that assume one
    epochs      how many there will be, for rules that depend on it; Lightning and Hugging Face say it themselves
    train       the training data, as `fit` takes it, for rules that are asked about the whole set once an epoch
    clean       data whose targets can be trusted, for rules that read it; each step looks at `clean_batch` of it
    objective   losses [n], as that of `fit`
    out         a folder for the ledger and the history, which `thresher report` reads
    """

    def __init__(
        self,
        what: Any = "standard",
        *,
        noise_rate: float | None = None,
        epochs: float = 1.0,
        train: Any = None,
        clean: Any = None,
        clean_batch: int | None = None,
        objective: Any = None,
        classes: int | None = None,
        seed: int = 0,
        out: Path | str | None = None,
    ):
        refuse_other_settings(
            noise_rate=noise_rate, epochs=epochs, clean_batch=clean_batch, objective=objective, classes=classes,
            seed=seed, out=out,
        )  # fmt: skip
        self.train = None if train is None else as_set(train, "train=")
        known = classes if self.train is None else self.train.classes
        self.recipe: Recipe = recipe_for(what, noise_rate, known, epochs, objective)
        self.rule = _everything if self.recipe.each_batch is None else self.recipe.each_batch
        if self.recipe.each_epoch is not None and self.train is None:
            raise ThresherError("This method looks at the whole training set: pass train=Examples(...) to Weigher().")
        if self.recipe.each_epoch is not None and self.train is not None:
            own = as_objective(self.recipe.objective, self.train.task)
            check_recipe(Recipe(each_epoch=self.recipe.each_epoch), own, self.train, {})
        self.classes, self.seed, self.total, self.epoch = classes, seed, epochs, 0
        self.clean_size, self.clean_batches = clean_batch, CleanStream(None, 1, seed)
        if clean is not None:
            self.take_clean(clean)
        self.networks: dict[nn.Module, Network] = {}
        self.saved: list[Network] = []  # those that have not been seen since a state was loaded
        self.saved_draws: Mapping[str, Any] | None = None
        self.resumed = self.ended = False
        self.written = Written(None if out is None else Path(out), self.train)
        self.counted: Tensor | None = None
        self.skipping: RemovableHandle | None = None
        self.begin_epoch(0)

    @property
    def ledger(self) -> Any:
        return self.written.ledger

    @property
    def history(self) -> list[dict[str, Any]]:
        return self.written.history

    def take_clean(self, clean: Any) -> None:
        """Look at these trusted examples from now on, where a rule reads such."""
        if "clean" not in needs_of(self.recipe):
            raise ThresherError("This method reads no clean set: leave it out, or choose another, such as l2rw.")
        made = as_set(clean, "clean=")
        self.clean_batches = CleanStream(made, min(self.clean_size or 64, len(made)), self.seed)

    def epochs(self) -> Iterator[int]:
        """The epochs of a plain loop: `for epoch in weigher.epochs(): ...`; after a state was loaded, the others."""
        for epoch in range(self.epoch + self.ended if self.resumed else 0, int(self.total)):
            self.begin_epoch(epoch)
            yield epoch
            self.end_epoch()
        self.finish()

    def begin_epoch(self, epoch: int) -> None:
        """Where a state was loaded from the middle of this epoch, go on from there."""
        refuse_unless("epoch", epoch, is_whole(epoch, 0), "a whole number, of which the first is 0")
        if self.resumed and epoch == self.epoch and not self.ended:
            self.resumed = False
            return
        if epoch != self.epoch:
            self.end_epoch()  # that of a trainer that stopped after the last batch of an epoch
        self.epoch, self.resumed, self.ended, self.saved_draws = epoch, False, False, None
        self.clean_draws = generator(self.seed, "clean", epoch)
        self.draws: torch.Generator | None = None
        for network in self._all:
            network.epoch = None

    def loss(
        self,
        model: nn.Module,
        inputs: Any,
        targets: Tensor,
        *,
        ids: Tensor | None = None,
        outputs: Tensor | None = None,
        weight: Tensor | None = None,
        peer: nn.Module | None = None,
        average: nn.Module | None = None,
    ) -> Tensor:
        """The loss to differentiate, Σ wℓ / Σ w over the batch (of all processes together).

        ids      of the examples [n], by which the ledger keeps them; without ids it keeps nothing
        outputs  of the model for these inputs, where the loop has made them
        weight   further weights [n], which multiply those of the rules
        """
        refuse_other_batch(model, targets, ids=ids, weight=weight)
        if weight is not None and (weight.device.type == "cpu" or not self.networks):  # a GPU would be waited for
            refuse_other_weights(weight)
        self.written.begin()
        network, own = unwrapped(model), self._network(model)
        if outputs is None and not self._looks_inside:
            outputs = called(model, inputs)
        if "clean" in needs_of(self.recipe) and self.clean_batches.clean is None:
            raise ThresherError("This method needs a clean set: pass clean=(inputs, targets) to Weigher().")
        looked = self._look(network, own, inputs, targets, outputs, peer, average)
        if outputs is None:  # with the random draws of the pass that was looked at
            outputs = called(model, inputs)
        evidence = looked.evidence if ids is None else with_ids(looked.evidence, ids.to(looked.evidence.ids.device))
        weights, shares = self._decide(network, own, evidence, weight)
        if ids is not None:
            note = note_of(evidence.ids, evidence, evidence, weights, signals_of(self.rule), looked.task)
            own.notes.add(note, evidence.targets, looked.task, evidence.classes)
        columns = one_tensor(outputs) if looked.adapter is None else looked.adapter(one_tensor(outputs))
        losses = evidence.replace(raw_outputs=columns.float(), others={}).losses
        if torch.is_grad_enabled() and not losses.requires_grad and any(p.requires_grad for p in model.parameters()):
            raise ThresherError("The outputs do not lead back to the model's parameters: leave out .detach().")
        return shares.dot(losses)

    @property
    def _looks_inside(self) -> bool:
        """Whether the rule reads more of the model than its outputs."""
        wanted = signals_of(self.rule)
        return "clean" in needs_of(self.rule) or any(signal.prepared is not None for signal in wanted)

    def _look(
        self,
        model: nn.Module,
        own: Network,
        inputs: Any,
        targets: Tensor,
        outputs: Tensor | None,
        peer: nn.Module | None,
        average: nn.Module | None,
    ) -> Looked:
        if self.draws is None:
            draws = torch.Generator(targets.device).manual_seed(derive(self.seed, "epoch", self.epoch))
            self.draws = state.into_generator(draws, self.saved_draws)
        detached = None if outputs is None else one_tensor(outputs).detach()
        return look(
            self.rule, model, inputs, targets, objective=self.recipe.objective, outputs=detached,
            clean=self._clean_batch(targets.device), peer=None if peer is None else unwrapped(peer), average=average,
            classes=self.classes, memory=own.memory, epoch=self.epoch, epochs=self.total, generator=self.draws,
        )  # fmt: skip

    def _clean_batch(self, device: torch.device) -> tuple[Any, Tensor] | None:
        """The next clean examples, the same in every process."""
        clean = self.clean_batches.clean
        if clean is None:
            return None
        taken = clean.subset(self.clean_batches.take(self.clean_draws)).to(device)
        inputs = next(taken.batches(torch.arange(len(taken), device=device)[None]))
        return inputs, taken.targets

    def _decide(
        self, model: nn.Module, own: Network, evidence: Evidence, weight: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The weights of our examples, and their shares of the batch of all processes.

        Gradients are averaged over the processes, so that each process counts its shares as often as there are others.
        """
        factor = torch.ones(len(evidence), device=evidence.ids.device) if weight is None else weight.float()
        if len(factor) != len(evidence):
            raise ThresherError(f"There are {len(evidence)} examples and {len(factor)} weights: give one each.")
        if self.recipe.each_epoch is not None and self.train is not None:
            if own.epoch is None:
                own.epoch = EpochWeights(self.recipe.each_epoch, own.epoch_memory)
                assert self.draws is not None
                own.epoch.decide(model, evidence, self.train, self.epoch, self.total, self.draws)
            factor = factor * own.epoch.of(evidence.ids)
        whole, ours = of_all(evidence)
        decision = decided(self.rule, whole)
        own.memory.update(decision.memory)
        factors = torch.cat([each.to(factor.device) for each in from_all(factor)]) if processes() > 1 else factor
        weights = decision.weights * factors
        total = weights.sum()
        self.counted = total if self.counted is None else self.counted.to(total.device) + total
        return weights[ours], shares_of(weights, self.recipe.divide_by)[ours] * processes()

    def _network(self, model: nn.Module) -> Network:
        inner = unwrapped(model)
        if inner not in self.networks:
            place = len(self.networks)
            if self.saved:
                self.saved[0].move(next(inner.parameters()).device)
            self.networks[inner] = self.saved.pop(0) if self.saved else Network(place)
        return self.networks[inner]

    def skip_if_empty(self, optimizer: Optimizer) -> None:
        """Before a step of the optimizer: if no example has counted since the last, nothing moves, momentum included.

        The gradients, which are then zero, are removed when the step comes: optimizers leave parameters without one as
        they are, and a GradScaler has looked at the gradients by then.
        """
        self._step_again()  # where a scaler has left out the step
        if self.counted is not None and not bool(self.counted > 0):
            inner: Optimizer = getattr(optimizer, "optimizer", optimizer)  # which Accelerate has wrapped
            self.skipping = inner.register_step_pre_hook(self._step_by_nothing)
            self.written.skipped += 1
        self.counted = None

    def _step_by_nothing(self, optimizer: Optimizer, *_: Any) -> None:
        optimizer.zero_grad(set_to_none=True)
        self._step_again()

    def _step_again(self) -> None:
        if self.skipping is not None:
            self.skipping.remove()
            self.skipping = None

    def end_epoch(self) -> None:
        """Write the rows of the epoch, each example once although several processes may have seen it."""
        told = [(own, _joined(from_all(own.notes.take()))) for own in self._all]
        self.written.add([(own.place, *own.notes.rows(noted)) for own, noted in told if noted], self.epoch)
        self.ended = True

    @property
    def _all(self) -> list[Network]:
        return [*self.networks.values(), *self.saved]

    def state_dict(self) -> dict[str, Any]:
        """What the next step depends on, for a checkpoint: numbers, texts and tensors. Of several processes all ask."""
        return {
            "version": state.VERSION, "epoch": self.epoch, "ended": self.ended,
            "counted": None if self.counted is None else float(self.counted),
            "draws": state.of_generator(self.draws), "clean_draws": self.clean_draws.get_state(),
            "clean_places": self.clean_batches.carry, "networks": [network.state() for network in self._all],
            "written": state.of_written(self.written),
        }  # fmt: skip

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Go on from there; the weigher is made as the one was that was saved. `out=` loses what came afterwards."""
        with state.reading(saved):
            self._go_on_from(saved)

    def _go_on_from(self, saved: Mapping[str, Any]) -> None:
        state.into_written(self.written, saved["written"])
        self.epoch, self.ended, self.resumed = saved["epoch"], saved["ended"], True
        self.counted = None if saved["counted"] is None else torch.tensor(saved["counted"])
        self.draws, self.saved_draws = None, saved["draws"]
        self.clean_draws = torch.Generator()
        self.clean_draws.set_state(saved["clean_draws"].cpu())
        self.clean_batches.carry = saved["clean_places"].cpu()
        self.networks = {}
        rule = self.recipe.each_epoch
        self.saved = [Network.of_state(place, each, rule) for place, each in enumerate(saved["networks"])]

    def finish(self) -> None:
        """Write what is left: trust in every example, and where train= is known previews of the least trusted."""
        self.written.finish()


def _joined(told: list[list[Told]]) -> list[Told]:
    return [each for of_process in told for each in of_process]


def _everything(evidence: Evidence) -> Tensor:
    """Every example counts the same."""
    return torch.ones(len(evidence), device=evidence.ids.device)
