"""Speech Commands of Gu et al.: what is asked at another rate, and how many parameters WaveGAN has."""

from dataclasses import replace

import torch

from selfpretrain.mixers.s4 import S4
from selfpretrain.runner.experiment import Cell, Finished
from selfpretrain.runner.workspace import Workspace
from selfpretrain.studies import gu_table_5 as ten_words
from selfpretrain.studies.recipes.reported import paper_arms
from selfpretrain.tasks.speech import Speech
from selfpretrain.training.model import Model
from selfpretrain.training.recipe import Recipe, build_network


class Untrained(Finished):
    """As if networks had been trained."""

    def network(self, made):
        return build_network(made).eval()

    def result(self, made):
        raise NotImplementedError

    log = result


def test_steps_twice_as_long_answer_a_constant_signal_as_before(tmp_path, monkeypatch):
    """What S4 answers after 1,024 samples, or 512 at half the rate: nearly the same."""
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(tmp_path))
    torch.manual_seed(0)
    made = of_speech()
    network = build_network(replace(made, model=Model(S4(states=8), 8, 1))).eval()
    layer = network.blocks[0].get_submodule("mixer")
    before, halved = (layer.kernel(length).sum(-1) for length in (1024, 512))
    ten_words.slow_down(network, 2.0)
    after = layer.kernel(512).sum(-1)
    assert (after - before).abs().max() < 0.05 * before.abs().max() < (halved - before).abs().max()


def test_accuracy_is_told_at_both_rates(tmp_path, monkeypatch):
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(tmp_path))
    made = of_speech()
    short = replace(made, model=replace(made.model, width=4, depth=1, mixer=S4(states=4)))
    told = ten_words.plot_sampling_rates([Cell("S4", "scratch", short)], Untrained(Workspace(tmp_path)))
    (curve,) = told["series"]
    assert curve["x"] == [8_000, 16_000] and all(0 <= y <= 100 for y in curve["y"])


def of_speech():
    arms = paper_arms("gu", "speech", "s4")
    return Recipe(Speech(words=10, made_up=True), arms.scratch_model, (arms.scratch,))
