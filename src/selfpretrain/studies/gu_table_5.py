"""Which networks hear words from raw samples, at half their rate too?

Source: Gu et al. (2022), Table 5: ten words of Speech Commands; settings in Table 11 and appendix D.2.

Protocol: S4 and the baselines that its authors ran, on MFCC (161 positions) and on raw samples (16,000), with
their settings; from scratch, from scratch with the compute of pretraining and finetuning together, and
self-pretrained. Networks on raw samples are then asked about the same recordings at 8 kHz, S4 with steps
twice as long.

Expected: S4 alone is good at both, and loses two points at half the rate; CNNs need raw samples, recurrent
networks MFCC.

What differs: of what was swept the first value is taken (``--tune`` tries the learning rates and dropouts,
``-s 'Transformer/model.depth=4'`` the layers); self-pretraining is ours, and WaveGAN cannot be. Not on our
shelf are ODE-RNN, NRDE and CKConv, which the authors quote; a Transformer or LipschitzRNN on raw samples they
could not run either. At the small scale spoken digits as MFCC stand in for ten words as MFCC.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

import torch

from ..config import spec
from ..mixers.attention import Attention
from ..mixers.exprnn import ExpRNN
from ..mixers.lipschitz import Lipschitz
from ..mixers.performer import Performer
from ..mixers.s4 import S4
from ..mixers.wavegan import WaveGAN
from ..runner.experiment import Cell, Finished
from ..runner.tuning import SearchSpace
from ..system.files import Json
from ..tasks.base import Task
from ..tasks.speech import Speech
from ..training import evaluate
from ..training.model import Network
from .common.plots import Points, append_point, panel
from .common.table_study import TEN_WORDS, TEN_WORDS_RAW, TableRow, TableStudy
from .recipes.arms import SCRATCH

RATES: tuple[Literal[8_000], Literal[16_000]] = (8_000, 16_000)
"""Sampling rates of the test data, in Hz; networks are trained at the last."""
S4_ROW = TableRow("S4", S4(), "s4")
PERFORMER = TableRow("Performer", Performer(), "performer")
EXPRNN = TableRow("ExpRNN", ExpRNN(), "exprnn", objective="causal")
ROWS = {
    TEN_WORDS: (
        TableRow("Transformer", Attention(), "transformer"),
        PERFORMER,
        EXPRNN,
        TableRow("LipschitzRNN", Lipschitz(), "lipschitz", objective="causal"),
        S4_ROW,
    ),
    TEN_WORDS_RAW: (PERFORMER, EXPRNN, TableRow("WaveGAN-D", WaveGAN(), "wavegan"), S4_ROW),
}


@spec
class TenWords(TableStudy):
    """Two kinds of features, and three arms per architecture."""

    paper = "gu2022"
    tasks = (TEN_WORDS, TEN_WORDS_RAW)
    share = 0.5
    table = "Table 5"
    names = {TEN_WORDS: "MFCC", TEN_WORDS_RAW: "raw"}
    paper_rows = {(row.name, SCRATCH): row.name for rows in ROWS.values() for row in rows}
    space = SearchSpace(lr=(1e-3, 5e-4), batch=(), dropout=(0.0, 0.1))

    def rows(self, label: str) -> Iterator[TableRow]:
        """Yield the architectures that the paper ran on these features."""
        yield from ROWS[label]

    def measures(self, finished: Finished) -> list[Json]:
        """Return a plot of accuracy on raw samples by sampling rate, for the first seed."""
        cells = self.cells_by_task().get(TEN_WORDS_RAW, [])
        return [plot_sampling_rates(cells, finished)] if cells else []


def plot_sampling_rates(cells: Sequence[Cell], finished: Finished) -> Json:
    """Return a plot of test accuracy at both sampling rates, for mixers that accept other lengths."""
    curves: dict[str, Points] = {}
    for cell in (cell for cell in cells if not cell.recipe.model.mixer.whole):
        recipe = cell.recipe
        assert isinstance(recipe.task, Speech), "of raw samples"
        for rate in RATES:
            network = slow_down(finished.network(recipe), RATES[-1] / rate)
            at_rate: Task = replace(recipe.task, rate=rate)
            examples = evaluate.load_test(at_rate)
            scores = evaluate.evaluate(network, recipe.last.objective, examples, at_rate.form).scores
            append_point(curves, f"{cell.row}, {cell.column}", rate, 100 * scores["accuracy"])
    return panel("Raw samples at another rate", "samples per second", "test accuracy in %", curves)


@torch.no_grad()
def slow_down(network: Network, factor: float) -> Network:
    """Multiply the step sizes dt of a network, if it has any, by ``factor``, and return it.

    This adapts a state space model to samples that are ``factor`` times as far apart.
    """
    for name, parameter in network.named_parameters():
        if name.endswith(".log_dt"):
            parameter.add_(math.log(factor))
    return network


study = TenWords
