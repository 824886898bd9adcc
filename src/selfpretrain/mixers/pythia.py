"""Pythia, or another language model of Hugging Face transformers, without its token embedding, as a mixer.

y = W_2 backbone(W_1 x);  W_1 and W_2 only where the model is not as wide as the backbone

The backbone is any ``AutoModel`` that accepts input embeddings; by default it is a small GPT-NeoX, the
architecture of Pythia. Its attention mask allows all real positions or, when causal, no later ones. Nothing
is downloaded. With pretrained weights, the embedding of a symbol starts as that of its token, or as the mean
of its tokens' embeddings; a grey value is written as its number.

Source: Biderman et al. (2023), Pythia. That of Amos et al. (2024), section 3.5, has the weights of the
checkpoint or, randomly initialised, 6 layers of 8 heads; its model is causal with width 512, one block and no
MLP.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..config import Count, Natural, spec
from ..errors import SpecError
from ..shapes import PaddingMask, Vectors
from .base import LayerContext, Mixer
from .common import hf_model
from .common.attention_heads import head_size


@spec
class Pythia(Mixer):
    """A complete network with norms, MLPs and positions; usually with ``Model(depth=1, expand=0)``."""

    whole = True
    looks_up = True
    published = (
        "The LRA numbers are of a network that was never self-pretrained and always causal; here a "
        "bidirectional model lifts that mask."
    )

    checkpoint: str = "EleutherAI/pythia-70m-deduped"  # name on the Hugging Face hub, or folder
    pretrained: bool = False  # whether to start from the checkpoint's weights
    layers: Natural = 2  # of a random GPT-NeoX; 0: the checkpoint's architecture
    heads: Count = 4  # of that GPT-NeoX, whose width is that of the model

    @property
    def is_available(self) -> bool:
        """Return whether the library and, if it is used, the checkpoint are on this machine."""
        return hf_model.is_available(self.checkpoint if self.pretrained or not self.layers else None)

    def version(self) -> str:
        """Return the version of the checkpoint, if it is used."""
        return (
            hf_model.version_of(self.checkpoint, self.pretrained)
            if self.pretrained or not self.layers
            else ""
        )

    def build(self, context: LayerContext) -> nn.Module:
        """Return the backbone, with projections if its width differs from the model's."""
        return PythiaLayer(context, self)

    def symbol_embeddings(self, symbols: tuple[str, ...]) -> Float[Tensor, "V D"] | None:
        """Return the checkpoint's token embeddings of the symbols, if it is pretrained; else None."""
        return hf_model.symbol_embeddings(self.checkpoint, symbols) if self.pretrained else None

    def backbone(self, width: int) -> Any:
        """Return the network of the library.

        Raises:
            SpecError: if it cannot be built.
        """
        if self.pretrained:
            return hf_model.load_pretrained(self.checkpoint)
        if self.layers and self.checkpoint != type(self).checkpoint:
            advice = "layers=0 for its architecture, or pretrained=true for its weights"
            raise SpecError(f"the checkpoint {self.checkpoint} would not be read: add {advice}")
        if not self.layers:
            return hf_model.build_from_config(self.checkpoint)
        size = head_size(LayerContext(width, 1), self.heads)
        if size % 2:
            raise SpecError(f"width {width} with {self.heads} heads gives heads of {size}: use an even size")
        return hf_model.gpt_neox(width, self.layers, self.heads)


class PythiaLayer(nn.Module):
    """The layer of ``Pythia``.

    Raises:
        SpecError: if pretrained weights and the model differ in width.
    """

    def __init__(self, context: LayerContext, settings: Pythia) -> None:
        super().__init__()
        D = context.width
        self.causal = context.causal
        network = settings.backbone(D)
        name = settings.checkpoint
        self.backbone, input_width, output_width = hf_model.remove_token_embedding(network, name)
        if settings.pretrained and input_width != D:
            raise SpecError(f"the weights of {name} need a model of width {input_width}, not {D}")
        self.enter = nn.Identity() if input_width == D else nn.Linear(D, input_width)  # W_1
        self.leave = nn.Identity() if output_width == D else nn.Linear(output_width, D)  # W_2

    def forward(self, x: Vectors, padding_mask: PaddingMask = None) -> Vectors:
        """Apply all layers of the backbone."""
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device)
        mask = (mask.tril() if self.causal else mask)[None, None]
        # Padding comes last, where no real position of a causal model looks: one mask is for all sequences.
        if not self.causal and padding_mask is not None:
            itself = torch.eye(x.shape[1], dtype=torch.bool, device=x.device)  # no row of padding is empty
            mask = mask & padding_mask[:, None, None, :] | itself
        return self.leave(self.backbone(inputs_embeds=self.enter(x), attention_mask=mask).last_hidden_state)


mixer = Pythia
