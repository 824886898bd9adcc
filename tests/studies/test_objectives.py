"""Any denoising objective can be compared, with the settings that it proposes for the task."""

import pytest

import toys
from selfpretrain.config import spec
from selfpretrain.data.spec import Classes, SequenceSpec, Values
from selfpretrain.errors import SpecError
from selfpretrain.mixers.attention import Attention
from selfpretrain.objectives.base import Denoise, Distance
from selfpretrain.objectives.causal import Causal
from selfpretrain.objectives.masked import Masked
from selfpretrain.studies.compare import build_comparison
from selfpretrain.studies.recipes.defaults import denoising_objective
from selfpretrain.tasks.digits import Digits
from selfpretrain.tasks.listops import ListOps
from selfpretrain.tasks.paths import Paths
from selfpretrain.tasks.stdlib import Stdlib


@spec
class Odd(Masked):
    """Masking, with a rate of its own."""

    @classmethod
    def for_signal(cls, form):
        return cls(rate=0.5 if isinstance(form.signal, Values) else 0.25)


@spec
class Unsettled(Denoise):
    """An objective that nobody can make without a setting."""

    distance: Distance

    def make_targets(self, batch, form, random):
        raise NotImplementedError


HERE = __name__


@pytest.mark.parametrize(
    ("task", "rate"),
    [(Stdlib(), 0.15), (ListOps(train=8, val=8, test=8).tiny(), 0.1), (Digits(), 0.5), (Paths().tiny(), 0.3)],
)
def test_masking_hides_what_the_papers_hide(task, rate):
    assert denoising_objective(task, "masked") == Masked(rate)


def test_plain_values_and_the_next_position():
    assert Masked.for_signal(SequenceSpec(Values(), 8, Classes(("a", "b")))) == Masked(0.25)
    assert denoising_objective(Stdlib(), "causal") == Causal()


@pytest.mark.parametrize(("signal", "rate"), [("tokens", 0.25), ("values", 0.5)])
def test_one_s_own_proposes_its_own(signal, rate):
    task = toys.Majority(signal=signal)
    study = build_comparison(task, (Attention(),), f"{HERE}:Odd", "smoke", 1)
    (arms,) = study.arms
    assert arms.pretrain.objective == Odd(rate)
    assert isinstance(arms.pretrain.objective, Denoise)
    assert {cell.column for cell in study.cells()} == {"scratch", "scratch (matched)", "SPT"}


@pytest.mark.parametrize(
    ("objective", "said"),
    [
        ("maskd", "no objective called 'maskd'; did you mean 'masked'?"),
        (
            "classify",
            "rebuilds no inputs; self-pretraining takes causal or diffusion or masked or replaced or spans",
        ),
        (
            f"{HERE}:HERE",
            "rebuilds no inputs; self-pretraining takes causal or diffusion or masked or replaced or spans",
        ),
        (f"{HERE}:Unsettled", "needs settings that for_signal does not give"),
    ],
)
def test_what_cannot_pretrain_is_refused_in_one_line(objective, said):
    with pytest.raises(SpecError) as caught:
        denoising_objective(toys.Majority(), objective)
    assert said in str(caught.value) and "\n" not in str(caught.value)
