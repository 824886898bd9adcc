"""Is S4D better than Mamba on time series, or were both only trained from scratch?

Source: our question, after Saadatmand et al. (2026), A Simple State Space Model Excels at Multivariate Time
Series Classification, arXiv:2605.27406: on 59 sets S4D beats the models of the Mamba family, and MS4, S4D
behind a linear map, beats S4D; every network there is trained from scratch.

Protocol: a Transformer, S4D, MS4 and Mamba, from scratch, from scratch with the compute of pretraining and
finetuning together, and self-pretrained, on sets of the UCR archive. The sets, by a rule that was written
down before any network was trained: of the 93 sets at hand those with at least 200 training series and 128 to
1,100 positions, and of each family of names (FordA, FordB) the first. The direction is the better of two at
the learning rate 3e-3: a network that looks both ways, pretrained with the masked objective, or one that
looks back, pretrained with the causal one; then the learning rate, one for all stages of an arm, is the best
of three (1e-3, 3e-3, 1e-2). Chosen for every architecture and arm on its own, from scratch as well, by the
mean validation accuracy on every sixth set; four trials each, with a seed that no report uses
(docs/s4d-or-mamba.tsv).

Expected: from scratch S4D is ahead of Mamba, as in the paper; self-pretrained the order is another one, or
the differences shrink.

What differs: 17 sets of one channel in place of 59 of mostly several; small networks with as many parameters
as a Transformer of width 64, and short training, the same number of steps for all architectures and arms, by
length and number of training series: 1.2 million positions, at least 100 and at most 400 steps of 16 series,
twice as many from 1,000 training series on. Two seeds, since the sets are what is averaged over. MS4N, with
its further norm, is left out: our networks have norms.
"""

from ..config import spec
from .common.time_series import TimeSeriesStudy


@spec
class S4dOrMamba(TimeSeriesStudy):
    """Three arms per architecture on 17 sets."""

    bundled_seeds = 2


study = S4dOrMamba
