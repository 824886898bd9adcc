"""Which positions decide? Occlusion with captum hides one stretch of a sequence after another.

pip install captum
python examples/explain_with_captum.py [--runs FOLDER]

It needs nothing but predictions, so that networks, simple methods and their averages are explained alike.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from captum.attr import Occlusion

import selfpretrain


def main() -> None:
    """Find where in a recording the bump is by which two classes differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    flags = parser.parse_args()

    random = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = random.normal(size=(60, 40))
    X[y == 1, 10:16] += 4
    settings = {"width": 16, "depth": 1, "pretrain_epochs": 3, "epochs": 25, "n_trials": 1}
    model = selfpretrain.SequenceClassifier(**settings).fit(X, y)

    def probabilities(inputs: torch.Tensor) -> torch.Tensor:
        """Return the probability (n, 2) of both classes for sequences (n, L)."""
        return torch.from_numpy(model.predict_proba(inputs.numpy()))

    # Six positions at a time are replaced by the mean of the training data; text needs a symbol instead.
    bumps = torch.from_numpy(X[y == 1])
    found = Occlusion(probabilities).attribute(
        bumps, sliding_window_shapes=(6,), strides=(2,), baselines=float(X.mean()), target=1
    )
    importance = found.mean(0).numpy()
    flags.runs.mkdir(parents=True, exist_ok=True)
    np.savetxt(flags.runs / "importance.csv", importance)
    inside = importance[10:16].sum() / importance.clip(min=0).sum()
    print(f"{100 * inside:.0f} % of the importance is in the bump, 15 % of the positions")


if __name__ == "__main__":
    main()
