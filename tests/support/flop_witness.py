"""An independent count of the FLOPs of training steps: torch's counter, and predictions of real batches."""

import torch
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

from selfpretrain.data.dataloader import BatchSampler
from selfpretrain.data.dataset import generator
from selfpretrain.training import cost
from selfpretrain.training.recipe import build_network, training_data
from selfpretrain.training.transfer import freeze

aten = torch.ops.aten
KERNELS = {
    aten._scaled_dot_product_flash_attention_for_cpu: lambda q, k, v, *_, **__: sdpa_flop_count(q, k, v),
    aten._scaled_dot_product_flash_attention_for_cpu_backward: lambda grad, q, k, v, *_, **__: (
        sdpa_backward_flop_count(grad, q, k, v)
    ),
}
"""Operations that torch's counter leaves out, with its formulas for the same ones of GPUs."""


def counted_step(recipe, batches=800):
    """Mean FLOPs of so many steps of a recipe's last stage.

    Of batches of one shape, two with other numbers of predictions are counted; FLOPs are linear in these.
    """
    stage, form = recipe.last, recipe.task_of(recipe.last).form
    network, data = build_network(recipe), training_data(recipe)
    freeze(network, stage.freeze)
    optimizer = stage.optim.build(network, recipe.model.mixer.slow())
    sampler = BatchSampler(data.longest, stage.batch, recipe.seed)
    known, total = {}, 0.0
    for step in range(batches):
        batch = data.batch(sampler.rows(step))
        targets = stage.objective.make_targets(batch, form, generator("witness", step))
        answers = 0 if targets.loss_mask is None else int(targets.loss_mask.sum())
        points = known.setdefault((batch.inputs.shape[1], batch.padding_mask is None), {})
        if answers not in points and len(points) < 2:
            points[answers] = counted(network, stage.objective, targets, form)
        (low, first), (high, last) = (*points.items(), *points.items())[:2]
        slope = (last - first) / (high - low) if high != low else 0.0
        total += first + slope * (answers - low)
    return total / batches + counted_update(optimizer)


def counted_update(optimizer):
    """FLOPs of a step of an optimizer, with the gradients of the last backward pass."""
    with FlopCounterMode(display=False) as counter:
        optimizer.step()
    return counter.get_total_flops()


def counted(network, objective, targets, form):
    """FLOPs of a forward and a backward pass by torch's counter."""
    with FlopCounterMode(display=False, custom_mapping=KERNELS) as counter:
        objective.loss(network(*targets.network_inputs()), targets, form).backward()
    return counter.get_total_flops()


def counted_in_all(recipe, step=counted_step):
    """FLOPs of all stages of a recipe, for the steps that are planned."""
    return sum(step(prefix) * cost.plan(prefix).steps for prefix in recipe.prefixes())
