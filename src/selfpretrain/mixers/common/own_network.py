"""Networks of the user as mixers: a callable that returns an ``nn.Module``, or a model of transformers.

A callable is called with those of the keywords ``KEYWORDS`` that it names. It returns a layer, or, if it
names ``depth``, a whole backbone. Its module is called as ``module(x, padding_mask)`` or ``module(x)``. It is
named ``package.module:attribute``; a model of transformers is named ``hf-model:FOLDER``, see ``hf_model``.
"""

import functools
import inspect
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from ...config import Count, spec
from ...errors import SelfPretrainError, SpecError, first_line
from ...registry import import_attribute, names
from ...shapes import PaddingMask, Vectors
from ..base import ForeignModule, LayerContext, Mixer, check_length
from . import hf_model

KEYWORDS = ("width", "depth", "length", "causal", "heads")
"""Keywords that a callable may name; a single required parameter of another name is the width."""


@spec
class OwnLayer(Mixer):
    """A layer that a callable of the user builds."""

    factory: str  # package.module:attribute
    keywords: tuple[str, ...]  # names of the arguments that it is called with
    heads: Count = 4

    @property
    def name(self) -> str:
        """Return the name of the callable in lower case; ``own-`` before it if ours has that name."""
        name = self.factory.rpartition(":")[2].lower()
        return f"own-{name}" if name in names("mixers") else name

    def build(self, context: LayerContext) -> nn.Module:
        """Return the module of the callable.

        Raises:
            SpecError: if the callable fails, or returns something else.
        """
        arguments = {name: self.argument(name, context) for name in self.keywords}
        call = f"{self.factory}({', '.join(f'{name}={value}' for name, value in arguments.items())})"
        try:
            module = import_attribute(self.factory)(**arguments)
        except SelfPretrainError:
            raise
        except Exception as error:
            raise SpecError(f"{call} fails: {first_line(error)}") from error
        if not isinstance(module, nn.Module):
            raise SpecError(f"{self.factory} returns {type(module).__name__}, not a torch.nn.Module")
        for name, weight in module.named_parameters():
            if isinstance(weight, UninitializedParameter):
                raise SpecError(f"{self.factory}: {name} has no shape yet; use layers that are not lazy")
            if weight.requires_grad and _returned_weights.get(id(weight)) is weight:
                raise SpecError(
                    f"{self.factory} returns weights ({name}) that it has returned before; make new ones"
                )
        _returned_weights.update((id(weight), weight) for weight in module.parameters())
        return OwnModule(module, call, context.length if "length" in self.keywords else None)

    def argument(self, name: str, context: LayerContext) -> int | bool:
        """Return the value of a keyword; unknown names stand for the width."""
        values = {"length": context.length, "causal": context.causal, "heads": self.heads}
        return values.get(name, context.width)


@spec
class OwnBackbone(OwnLayer):
    """A whole network between embedding and head that a callable of the user builds."""

    whole = True

    depth: Count = 2

    def argument(self, name: str, context: LayerContext) -> int | bool:
        """Return the value of a keyword; unknown names stand for the width."""
        return self.depth if name == "depth" else super().argument(name, context)


_returned_weights: "weakref.WeakValueDictionary[int, nn.Parameter]" = weakref.WeakValueDictionary()


class OwnModule(ForeignModule):
    """The module of ``OwnLayer`` and ``OwnBackbone``.

    Args:
        length: number of positions that the module is always called with; None: any number.
    """

    def __init__(self, module: nn.Module, origin: str, length: int | None) -> None:
        super().__init__(module, origin)
        self.length = length
        parameters = [each for each in _parameters(module.forward) if each.kind not in VARIABLE]
        # The mask's parameter is ``padding_mask``, or else a second one without a default.
        named = [each.name for each in parameters if each.name == "padding_mask"]
        second = [each.name for each in parameters[1:2] if each.default is each.empty]
        self.mask = next(iter(named + second), None)

    def forward(self, x: Vectors, padding_mask: PaddingMask = None) -> Vectors:
        """Call the module, with zeros at padded positions if it takes no mask.

        Raises:
            SpecError: if the output has another shape than the input.
        """
        L = x.shape[1]
        u = x
        if self.length is not None:
            check_length(L, self.length)
            if missing := self.length - L:
                real = x.new_ones(x.shape[:2]).bool() if padding_mask is None else padding_mask
                padding_mask = F.pad(real, (0, missing))
                u = F.pad(x, (0, 0, 0, missing))
        if self.mask is not None:
            y = self.module(u, **{self.mask: padding_mask})
        else:
            y = self.module(u if padding_mask is None else u * padding_mask[..., None])
        y = y[0] if isinstance(y, tuple) else y
        shape = tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__
        if shape != tuple(u.shape):
            inputs = f"inputs of shape {tuple(u.shape)}"
            raise SpecError(f"{self.origin} gives {shape} for {inputs}; return that shape")
        return y[:, :L]


def mixer_of(name: str) -> Callable[[], Mixer]:
    """Return a callable that makes the mixer that a user names, with default settings.

    Raises:
        SpecError: if what the name stands for cannot be a mixer.
    """
    prefix, _, source = name.partition(":")
    if prefix == hf_model.PREFIX:
        return functools.partial(hf_model.read_model, source)
    thing = import_attribute(name)
    if isinstance(thing, type) and issubclass(thing, Mixer):
        return thing
    if isinstance(thing, nn.Module) or not callable(thing):
        raise SpecError(
            f"{name} is not a mixer: it is of type {type(thing).__name__}; "
            "name a class or function that returns a new module"
        )
    return functools.partial(own_mixer, name, thing)


def own_mixer(name: str, factory: Callable[..., Any]) -> Mixer:
    """Return the mixer of a callable: a backbone if it names ``depth``, else a layer.

    Raises:
        SpecError: if it needs arguments that are not offered.
    """
    parameters = [each for each in _parameters(factory) if each.kind not in VARIABLE]
    needed = [each.name for each in parameters if each.default is each.empty]
    unknown = [each for each in needed if each not in KEYWORDS]
    known = [each.name for each in parameters if each.name in KEYWORDS]
    if not (known or unknown) and any(each.kind is each.VAR_KEYWORD for each in _parameters(factory)):
        raise SpecError(
            f"{name} takes any keyword and names none; name those of {', '.join(KEYWORDS)} that it needs"
        )
    if len(unknown) > 1 or (unknown and "width" in known):
        raise SpecError(
            f"{name} cannot be built: it needs {', '.join(unknown)}; a callable gets those of "
            f"{', '.join(KEYWORDS)} that it names, so give the others defaults"
        )
    kind = OwnBackbone if "depth" in known else OwnLayer
    return kind(factory=name, keywords=(*unknown, *known))


def check_own_networks(mixers: Iterable[Mixer]) -> None:
    """Build the networks of users among some mixers once, at a small size.

    Raises:
        SpecError: if a callable fails, or returns something else than a module.
    """
    for mixer in mixers:
        if isinstance(mixer, OwnLayer):
            mixer.build(LayerContext(width=64, length=64))


VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # built into Python
        return []
