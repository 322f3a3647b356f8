"""Exact gradient norms of single examples for models without factored formulas."""

import torch
from torch import Tensor, nn
from torch.func import grad, vmap
from torch.nn.modules.dropout import _DropoutNd

from thresher.core.errors import ThresherError
from thresher.core.trees import Tree, call_with, mapped, rows
from thresher.engine.device.placement import as_written
from thresher.engine.gradients.formulas import refuse_batch_norm, supported


def norms_by_vmap(
    model: nn.Module, inputs: Tree, output_gradients: Tensor, chunk: int = 16, why_not: str | None = None
) -> Tensor:
    """The same norms [n] for models without formulas, by `vmap(grad)`: `chunk` copies of the gradient at a time.

    `output_gradients` are ∂loss_i/∂outputs_i [n, ...]; an objective that looks at the whole batch has seen it in them.
    Refusals say `why_not` the factored way, if that is known.
    """
    refuse_batch_norm(model)
    why_not = why_not or supported(model) or "although every layer has a formula"
    for name, layer in model.named_modules():
        if isinstance(layer, _DropoutNd) and layer.training and layer.p > 0:
            raise ThresherError(
                f"{name} draws dropout masks, which vmap(grad) cannot repeat: call eval() on it, or use only layers "
                f"with factored formulas ({why_not.rstrip('.')})."
            )
    trained = {name: value.detach() for name, value in model.named_parameters() if value.requires_grad}
    others = {name: value.detach() for name, value in model.named_parameters() if not value.requires_grad}

    def along(parameters: dict[str, Tensor], example: Tree, output_gradient: Tensor) -> Tensor:
        buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}  # a pass may write to them
        with as_written():
            outputs = call_with(model, (parameters, others, buffers), mapped(lambda leaf: leaf[None], example))
        return (outputs[0] * output_gradient).sum()

    def norms(examples: Tree, output_gradients: Tensor) -> Tensor:
        gradients = vmap(grad(along), (None, 0, 0))(trained, examples, output_gradients)
        flat = [each.reshape(len(each), -1) for each in gradients.values()]  # a parameter may be a single number
        return torch.stack([each.float().square().sum(1) for each in flat]).sum(0).sqrt()

    try:
        blocks = [slice(start, start + chunk) for start in range(0, len(output_gradients), chunk)]
        return torch.cat([norms(rows(inputs, block), output_gradients[block]) for block in blocks])
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        said = str(error).splitlines()[0]
        raise ThresherError(
            f"vmap(grad) cannot take the gradients of single examples through this model ({why_not.rstrip('.')}): "
            f"replace that layer, or use output_gradient_norm, which needs none of them; torch said: {said}"
        ) from error
