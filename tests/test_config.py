"""Specs as JSON: what kept results are found by."""

from selfpretrain.config import added, from_dict, spec, to_dict
from selfpretrain.training.optim import Optim


@spec
class Kettle:
    litres: float = 1.0
    whistles: bool = added(False)


def test_an_added_field_is_written_where_it_is_set_and_nowhere_else():
    assert to_dict(Kettle()).keys() == {"is", "litres"}
    assert to_dict(Kettle(whistles=True))["whistles"] is True


def test_recipes_come_back_whether_an_added_field_is_set_or_not():
    for optim in (Optim(), Optim(cosine_steps=7), Optim(plateau_threshold=1e-4)):
        plain = to_dict(optim)
        assert from_dict(plain) == optim
        assert ("cosine_steps" in plain, "plateau_threshold" in plain) == (
            optim.cosine_steps is not None,
            optim.plateau_threshold != 0,
        )
