"""What is done in a folder of runs and where somebody works: a listing that all workers share."""

import contextlib
import json
import time
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass

from ..system.lease import PREFIX, SECONDS
from ..system.store import Store, Stored
from ..training.stage_folder import PREDICTIONS, RESULT

NAME = "survey"
MODEST, OLDEST = 100.0, 60.0
"""A listing is shared for as many times as long as it took, and for so many seconds at most."""
BRIEF = 0.5
"""Seconds of sharing that do not pay: whoever wants to know lists the files."""


@dataclass(frozen=True)
class Survey:
    """What a listing tells of stages, by name."""

    finished: list[str]
    untested: list[str]  # of those, without predictions
    busy: list[str]  # whose owners were heard of
    when: float  # by the clock of whoever keeps the files
    took: float = 0.0  # seconds

    def done(self, tested: set[str]) -> set[str]:
        """What has nothing left to do, if these stages are to be tested."""
        return set(self.finished) - (set(self.untested) & tested)


class Surveys:
    """The latest survey, made anew by whoever finds it too old.

    Args:
        stages: holds the folders of stages.
        shared: where surveys are kept.
    """

    def __init__(self, stages: Store, shared: Store) -> None:
        self._stages, self._shared = stages, shared
        self._ahead = shared.clock() - time.monotonic()

    def latest(self) -> Survey:
        """What is known of all stages."""
        found = self._shared.read(NAME)
        kept = _read(found) if found else None
        if found and kept:
            if self._ahead + time.monotonic() - found.changed < min(MODEST * kept.took, OLDEST):
                return kept
            self._shared.renew(NAME, found.content)  # the others go on with it while this one looks
        return self._made()

    def _made(self) -> Survey:
        began = time.monotonic()
        fresh = surveyed(self._stages)
        took = time.monotonic() - began
        if MODEST * took > BRIEF:
            plain = json.dumps(asdict(fresh) | {"took": took})
            self._shared.write(NAME, zlib.compress(plain.encode()))
        return fresh


def surveyed(store: Store) -> Survey:
    """What a listing of the folders of stages tells."""
    files: dict[str, dict[str, float]] = {}
    for entry in store.entries():
        stage, _, name = entry.name.rpartition("/")
        files.setdefault(stage, {})[name] = entry.changed
    now = store.clock()

    def those(fit: Callable[[dict[str, float]], bool]) -> list[str]:
        return [stage for stage, there in files.items() if fit(there)]

    return Survey(
        those(lambda there: RESULT in there),
        those(lambda there: RESULT in there and PREDICTIONS not in there),
        those(lambda there: any(name.startswith(PREFIX) and there[name] > now - SECONDS for name in there)),
        now,
    )


def _read(found: Stored) -> Survey | None:
    with contextlib.suppress(ValueError, TypeError, zlib.error):  # it is being written
        return Survey(**json.loads(zlib.decompress(found.content)))
    return None
