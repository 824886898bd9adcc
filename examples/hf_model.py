"""A model of Hugging Face transformers from its config, beside attention; the weights go on in that library.

python examples/hf_model.py [--scale small] [--runs FOLDER]

Needs ``pip install 'selfpretrain[hf]'``. From the command line: ``selfpretrain compare --task digits --mixers
hf-model:FOLDER``, where the folder has a ``config.json``.
"""

import argparse
from pathlib import Path

from safetensors.torch import load_file
from transformers import AutoModel, BertConfig

import selfpretrain


def main() -> None:
    """Compare it with attention, then train a classifier and load its weights into the library's model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", choices=("smoke", "small"), default="smoke")
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    flags = parser.parse_args()

    config = BertConfig(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, vocab_size=8
    )
    config.save_pretrained(flags.runs / "tiny-bert")
    mixer = f"hf-model:{flags.runs / 'tiny-bert'}"
    results = selfpretrain.compare(
        "digits",
        mixers=("attention", mixer),
        seeds=1 if flags.scale == "smoke" else 3,
        scale=flags.scale,
        workspace=selfpretrain.Workspace(flags.runs),
    )
    for run in results.to_rows():
        print(f"{run['row']:12} {run['column']:16} seed {run['seed']}: {100 * run['score']:5.1f} %")

    estimator = selfpretrain.SequenceClassifier(mixer=mixer, scale="smoke", runs=flags.runs).fit("digits")
    print(estimator.save_backbone(flags.runs / "weights.safetensors"))
    model = AutoModel.from_config(config, add_pooling_layer=False)
    left = model.load_state_dict(load_file(flags.runs / "weights.safetensors"), strict=False)
    print(f"starts fresh: {', '.join(left.missing_keys)}")


if __name__ == "__main__":
    main()
