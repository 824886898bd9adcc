"""Networks as a user would write them, sound and at fault, named ``own_networks:...`` in tests."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


class Conv(nn.Module):
    """A layer that is built from a width of another name and takes no mask."""

    def __init__(self, dim, causal=False):
        super().__init__()
        self.conv = nn.Conv1d(dim, dim, 5, padding=4 if causal else 2)

    def forward(self, x):
        return self.conv(x.mT)[..., : x.shape[1]].mT


class Ahead(Conv):
    """The same, whose causal form is not causal."""

    def __init__(self, dim, causal=False):
        super().__init__(dim)


class Masked(nn.Module):
    """Means over real positions; the mask has a name of its own and no default."""

    def __init__(self, width):
        super().__init__()
        self.out = nn.Linear(width, width)

    def forward(self, x, valid):
        if valid is None:
            return self.out(x + x.mean(1, keepdim=True))
        real = valid[..., None]
        return self.out(x + (x * real).sum(1, keepdim=True) / real.sum(1, keepdim=True))


class Unset(nn.Module):
    """A weight that nobody sets, and one drawn from another generator."""

    def __init__(self, width, fault="unset"):
        super().__init__()
        unset = torch.empty(width, width)
        self.weight = nn.Parameter(unset if fault == "unset" else torch.tensor(np.random.rand(width, width)))

    def forward(self, x):
        return x @ self.weight.to(x.dtype)


class Dead(nn.Linear):
    """A parameter that nothing uses."""

    def __init__(self, width):
        super().__init__(width, width)
        self.unused = nn.Parameter(torch.zeros(3))


class Mixed(nn.Module):
    """A mixer over a fixed number of positions."""

    def __init__(self, width, length):
        super().__init__()
        self.across = nn.Linear(length, length)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        return self.out(x + self.across(x.mT).mT)


class Encoder(nn.Module):
    def __init__(self, width, depth, heads, causal):
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, heads, 2 * width, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.causal = causal

    def forward(self, x, padding_mask=None):
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1) if self.causal else None
        return self.layers(x, later, None if padding_mask is None else ~padding_mask)


def encoder(width, depth, heads, causal=False):
    return Encoder(width, depth, heads, causal)


class Complex(nn.Module):
    """A diagonal recurrence whose parameters are complex numbers."""

    def __init__(self, width, causal=False):
        super().__init__()
        self.rate = nn.Parameter(torch.complex(torch.rand(width, 8) + 0.1, torch.rand(width, 8)))

    def forward(self, x):
        kernel = torch.exp(-self.rate[..., None] * torch.arange(x.shape[1])).sum(1).real.to(x.dtype)
        size = 2 * x.shape[1]
        y = torch.fft.irfft(torch.fft.rfft(x.mT, size) * torch.fft.rfft(kernel, size), size)
        return y[..., : x.shape[1]].mT * self.rate.imag[:, 0]


class InList(nn.Linear):
    """A layer in a plain list, which PyTorch does not see."""

    def __init__(self, width):
        super().__init__(width, width)
        self.hidden = [nn.Linear(width, width)]

    def forward(self, x):
        return super().forward(self.hidden[0](x.float()).to(x.dtype))


class OnesInList(InList):
    """A weight that every layer starts with alike, in a plain list."""

    def __init__(self, width):
        super().__init__(width)
        self.hidden = [nn.Parameter(torch.ones(width)).mul]


class Unsaved(nn.Linear):
    """A random tensor that is no parameter: an attribute, a buffer that is not saved, or one of NumPy."""

    def __init__(self, width, kept="attribute"):
        super().__init__(width, width)
        drawn = torch.rand(width) if kept != "numpy" else torch.tensor(np.random.rand(width)).float()
        if kept == "attribute":
            self.scale = drawn
        else:
            self.register_buffer("scale", drawn, persistent=kept == "numpy")

    def forward(self, x):
        return super().forward(x * self.scale)


def unsaved_buffer(width):
    return Unsaved(width, "buffer")


def numpy_buffer(width):
    return Unsaved(width, "numpy")


class Remembers(nn.Linear):
    """The mean of earlier training batches, in an attribute; ``always`` uses it in evaluation, too."""

    def __init__(self, width, always=True):
        super().__init__(width, width)
        self.mean, self.always = 0.0, always

    def forward(self, x):
        y = super().forward(x - self.mean) if self.training or self.always else super().forward(x)
        if self.training:
            self.mean = 0.5 * self.mean + x.detach().mean((0, 1)).float()
        return y


def remembers_in_training(width):
    return Remembers(width, always=False)


class LateBuffer(nn.Linear):
    """A buffer that is there after the first pass only."""

    def __init__(self, width):
        super().__init__(width, width)

    def forward(self, x):
        self.register_buffer("seen", torch.ones(1))
        return super().forward(x)


class ExtraState(nn.Linear):
    """A layer with a state that is no tensor."""

    def __init__(self, width):
        super().__init__(width, width)

    def get_extra_state(self):
        return {"seen": 1}

    def set_extra_state(self, state):
        pass


class Detached(nn.Linear):
    """A layer that passes no gradient on."""

    def __init__(self, width):
        super().__init__(width, width)

    def forward(self, x):
        return super().forward(x.detach())


class Frozen(Detached):
    """A layer without any gradient."""

    def forward(self, x):
        with torch.no_grad():
            return super().forward(x)


class ChangesInputs(Detached):
    """A layer that halves its inputs in place."""

    def forward(self, x):
        return nn.Linear.forward(self, x.mul_(0.5))


def along_the_batch(width):
    """A recurrence whose first axis is time, without batch_first."""
    return nn.GRU(width, width)


def other_draws(width):
    return Unset(width, "numpy")


def recurrent(width):
    return nn.GRU(width, width, batch_first=True)


def narrow(width):
    return nn.Linear(width, 1)


def failing(width):
    raise RuntimeError("no such kernel\nand more")


def nothing(width):
    return None


def greedy(width, vocab, classes):
    return nn.Linear(width, width)


def anything(**keywords):
    return nn.Linear(keywords["width"], keywords["width"])


class Tied(nn.Module):
    """Two layers with one weight."""

    def __init__(self, width):
        super().__init__()
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(self.first(x).tanh())


class NeedsNumbers(nn.Linear):
    """A layer that fails without numbers, as no error of PyTorch would."""

    def __init__(self, width):
        super().__init__(width, width)

    def forward(self, x):
        if x.is_meta:
            raise ValueError("only numbers can be sorted\nand more")
        return super().forward(x)


class Drops(nn.Linear):
    """Dropout that is no module."""

    def __init__(self, width):
        super().__init__(width, width)

    def forward(self, x):
        return F.dropout(super().forward(x), 0.1, self.training)


class DropsWeights(Drops):
    """Dropout within the kernel of attention."""

    def forward(self, x):
        u = x[:, None]
        return F.scaled_dot_product_attention(u, u, u, dropout_p=0.1)[:, 0] + F.linear(x, self.weight)


class Normalises(Drops):
    """Normalisation over the batch that is no module."""

    def forward(self, x):
        return F.batch_norm(F.linear(x, self.weight).mT, None, None, training=True).mT


def starts_from_numbers(width):
    """A layer that cannot be built without numbers, and runs without them."""
    if torch.get_default_device().type == "meta":
        raise AttributeError("no numbers")
    return nn.Linear(width, width)


def double(width):
    return nn.Linear(width, width).double()


def lazy(width):
    return nn.LazyLinear(width)


class InPlace(nn.Linear):
    """A result that is changed after its gradient needs it."""

    def __init__(self, width):
        super().__init__(width, width)

    def forward(self, x):
        y = super().forward(x).sigmoid()
        z = y * y
        y.add_(1)
        return z


class NanAtPadding(nn.Linear):
    """A layer that divides by zero at padding."""

    def __init__(self, width):
        super().__init__(width, width)

    def forward(self, x, padding_mask=None):
        y = super().forward(x)
        return y if padding_mask is None else y / padding_mask[..., None].to(y.dtype)


class AlwaysNan(nn.Linear):
    """A layer without a number."""

    def __init__(self, width):
        super().__init__(width, width)

    def forward(self, x):
        return super().forward(x) * torch.nan


class IgnoresMask(nn.Linear):
    """Means over all positions, also those of padding."""

    def __init__(self, width):
        super().__init__(width, width)

    def forward(self, x, padding_mask=None):
        return super().forward(x + x.mean(1, keepdim=True))


_made = {}


def same(width):
    return _made.setdefault(width, nn.Linear(width, width))


NUMBER = 3
MODULE = nn.Linear(8, 8)
