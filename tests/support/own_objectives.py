"""An objective as a user would write it, sound and at fault, named ``own_objectives:Mine`` in tests."""

from dataclasses import replace

import torch

from selfpretrain.config import spec
from selfpretrain.objectives.masked import Masked


@spec
class Mine(Masked):
    """Masked denoising, and a fault in the targets."""

    fault: str = ""

    def make_targets(self, batch, form, random):
        """Return the targets of masked denoising, with a fault."""
        found = super().make_targets(batch, form, random)
        real, none = batch.real(), torch.zeros_like(batch.real())
        changes = {
            "": {},
            "nothing": {"masked": none, "loss_mask": none, "size": none.sum()},
            "shown": {"masked": none},
            "padding": {"loss_mask": torch.ones_like(real)},
            "drawn": {"masked": real & (torch.rand(real.shape) < 0.5)},
        }
        return replace(found, **changes.get(self.fault, {}))

    def loss(self, outputs, targets, form):
        """Return the loss of masked denoising, or one for each answer."""
        if self.fault == "vector":
            return outputs.mean(1)
        return super().loss(outputs, targets, form)

    def scores(self, metric_sums):
        """Return the scores of masked denoising as tensors, or none."""
        found = {name: torch.tensor(each) for name, each in super().scores(metric_sums).items()}
        if self.fault == "unscored":
            return {"loss": found["loss"]}
        return found | {"score": float("nan")} if self.fault == "nan" else found
