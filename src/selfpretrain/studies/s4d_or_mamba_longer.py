"""Is self-pretraining behind labels on time series because all training was short?

Source: our question, after the first page of `s4d-or-mamba` (13 sets, one seed): with stages of 100 to 800
steps self-pretraining was 5 to 6 points behind labels alone with the same compute, and no network was near
what other methods reach.

Protocol: architectures, arms and settings of `s4d-or-mamba`; four times the steps in every stage; every third
of its sets, from the first. This was written down before any of it was run.

Expected: all scores are higher, and self-pretraining is less far behind, or ahead.

What differs: as in `s4d-or-mamba`; and learning rates and directions were chosen for a quarter of the steps.
One seed, since the sets are what is averaged over.
"""

from typing import ClassVar

from ..config import spec
from .common.time_series import TimeSeriesStudy, chosen_sets


@spec
class S4dOrMambaLonger(TimeSeriesStudy):
    """Three arms per architecture on some sets, trained for longer."""

    bundled_seeds = 1
    times: ClassVar[int] = 4
    tasks = chosen_sets()[::3]


study = S4dOrMambaLonger
