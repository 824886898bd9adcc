"""Pythia, or another language model of the library transformers, without its tokens: vectors in, vectors out.

y = W_2 backbone(W_1 x);  W_1 and W_2 only where the model is not as wide as the backbone

The backbone is what ``AutoModel`` makes of a checkpoint, as long as it takes vectors for tokens; unless one
is asked for, a small GPT-NeoX, which is what Pythia is. It is told which positions see which: all real ones,
or no later ones. Nothing is downloaded. With pretrained weights, a symbol of the task starts as the token
that it is, or as the mean of those that write it, and a grey value as its number.

Source: Biderman et al. (2023), Pythia. The one of Amos et al. (2024), section 3.5, has the weights of the
checkpoint or, drawn anew, 6 layers of 8 heads; its model is causal and 512 wide, with one block and no mlp.
"""

from typing import Annotated, Any, ClassVar

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor, nn

from ..config import Count, spec
from ..errors import SpecError
from ..shapes import PaddingMask, Vectors
from .base import LayerContext, Mixer
from .common import pythia_weights
from .common.attention_heads import head_size


@spec
class Pythia(Mixer):
    """A network of its own, norms, mlps and positions included; usual with ``Model(depth=1, expand=0)``."""

    whole = True
    looks_up = True
    published: ClassVar[str] = (
        "The LRA numbers are of a network that was never self-pretrained and always causal; here a "
        "bidirectional model lifts that mask."
    )

    checkpoint: str = "EleutherAI/pythia-70m-deduped"  # a name on the Hugging Face hub, or a folder
    pretrained: bool = False  # whether to start from the checkpoint's weights
    layers: Annotated[int, Field(ge=0)] = (
        2  # of a fresh GPT-NeoX; 0: a fresh network of the checkpoint's sizes
    )
    heads: Count = 4  # of that GPT-NeoX, which is as wide as the model

    @property
    def at_hand(self) -> bool:
        """Whether all that it needs is on this machine."""
        return pythia_weights.at_hand(self.checkpoint if self.pretrained or not self.layers else None)

    def build(self, context: LayerContext) -> nn.Module:
        """The backbone, made to fit the model's width."""
        return PythiaLayer(context, self)

    def rows(self, symbols: tuple[str, ...]) -> Float[Tensor, "V D"] | None:
        """The checkpoint's own vectors, if its weights are used."""
        return pythia_weights.written(self.checkpoint, symbols) if self.pretrained else None

    def backbone(self, width: int) -> Any:
        """The network as the library makes it.

        Raises:
            SpecError: if it cannot be made.
        """
        if self.pretrained:
            return pythia_weights.trained(self.checkpoint)
        if not self.layers:
            return pythia_weights.fresh(self.checkpoint)
        size = head_size(LayerContext(width, 1), self.heads)
        if size % 2:
            raise SpecError(f"width {width} with {self.heads} heads gives heads of {size}: use an even size")
        return pythia_weights.gpt_neox(width, self.layers, self.heads)


class PythiaLayer(nn.Module):
    """The module of ``Pythia``.

    Raises:
        SpecError: if pretrained weights and the model differ in width.
    """

    def __init__(self, context: LayerContext, settings: Pythia) -> None:
        super().__init__()
        D, self.causal = context.width, context.causal
        made = settings.backbone(D)
        self.backbone, enters, leaves = pythia_weights.without_tokens(made, settings.checkpoint)
        if settings.pretrained and enters != D:
            raise SpecError(f"the weights of {settings.checkpoint} need a model of width {enters}, not {D}")
        self.enter = nn.Identity() if enters == D else nn.Linear(D, enters)  # W_1
        self.leave = nn.Identity() if leaves == D else nn.Linear(leaves, D)  # W_2

    def forward(self, x: Vectors, padding_mask: PaddingMask = None) -> Vectors:
        """Through all layers of the backbone."""
        y = self.backbone(inputs_embeds=self.enter(x), attention_mask=self._seen(x, padding_mask))
        return self.leave(y.last_hidden_state)

    def _seen(self, x: Vectors, padding_mask: PaddingMask) -> Bool[Tensor, "b 1 L L"]:
        """Which positions each one sees; itself always, for padding must see something."""
        seen = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device)
        seen = (seen.tril() if self.causal else seen)[None, None]
        if padding_mask is None:
            return seen
        return seen & padding_mask[:, None, None, :] | torch.eye(
            x.shape[1], dtype=torch.bool, device=x.device
        )


mixer = Pythia
