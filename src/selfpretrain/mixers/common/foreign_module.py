"""The base class of layers around a module of other code, whose weights can be saved under its own names."""

from torch import Tensor, nn


class ForeignModule(nn.Module):
    """A layer that calls a module from outside this package; ``module`` keeps its own names of weights.

    Args:
        origin: the call that makes such a module, e.g. ``mylab:make(width=64)``.
    """

    def __init__(self, module: nn.Module, origin: str) -> None:
        super().__init__()
        self.module = module
        self.origin = origin

    def own_weights(self) -> dict[str, Tensor]:
        """Return the module's weights by its own names."""
        return dict(self.module.state_dict())
