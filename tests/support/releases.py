"""Releases of data sets and weights in small, written as their authors publish them."""

import wave
from pathlib import Path

import numpy as np

from selfpretrain.data.spec import SPLITS
from selfpretrain.tasks.listops import SYMBOLS, ListOps
from selfpretrain.tasks.speech import RATE, TEN

SECONDS, SAMPLES = 481, 60_001
"""The length of a recording of BIDMC, and its samples at 125 Hz."""
BATCH = 60
"""Images in each of the six batches of CIFAR-10."""
LETTERS = "ab0123456789"
"""Tokens of the tiny Pythia after the one for all others."""
SIZES = {"vocab_size": len(LETTERS) + 1, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}


def bidmc_recordings(number: int = 6) -> list[dict]:
    """Return recordings of ``number - 1`` patients: the last two are of one."""
    random = np.random.RandomState(0)
    made = []
    for i in range(number):
        numbers = {
            key: (60 + i + random.randint(0, 9, SECONDS)).astype(float) for key in ("hr", "rr", "spo2")
        }
        signals = {key: random.randint(0, 500, SAMPLES) / 500 for key in ("pleth", "ecg_ii")}
        made.append({"mimic_id": f"s{min(i, number - 2):05d}"} | signals | numbers)
    made[0]["hr"][100] = np.nan
    return made


def write_physionet(folder: Path, recordings: list[dict]) -> None:
    """Write recordings as PhysioNet publishes BIDMC: three files each."""
    folder.mkdir(parents=True)
    for i, row in enumerate(recordings, start=1):
        lines = ["Time [s], RESP, PLETH, V, AVR, II"]
        pairs = zip(row["pleth"], row["ecg_ii"], strict=True)
        lines += [f"{t / 125},0,{p},0,0,{e}" for t, (p, e) in enumerate(pairs)]
        (folder / f"bidmc_{i:02d}_Signals.csv").write_text("\n".join(lines))
        lines = ["Time [s], HR, PULSE, RESP, SpO2"]
        numbers = zip(row["hr"], row["rr"], row["spo2"], strict=True)
        for t, (h, r, s) in enumerate(numbers):
            lines.append(f"{t},{'NaN' if np.isnan(h) else int(h)},1,{int(r)},{int(s)}")
        (folder / f"bidmc_{i:02d}_Numerics.csv").write_text("\n".join(lines))
        text = f"bidmc_{i:02d}\nAge: 88\nMIMIC II matched wdb ID: {row['mimic_id']}\n"
        (folder / f"bidmc_{i:02d}_Fix.txt").write_text(text)


def pixels(n: int, seed: int = 0) -> np.ndarray:
    """Return (n, 3072) random bytes."""
    return np.random.RandomState(seed).randint(0, 256, (n, 3072)).astype(np.uint8)


def old_pickle(data: np.ndarray, labels: list[int]) -> bytes:
    """Return a batch as Python 2 wrote it: short binary strings, and NumPy's names of that time."""

    def text(value: bytes) -> bytes:
        return b"T" + len(value).to_bytes(4, "little") + value

    def number(value: int) -> bytes:
        return b"J" + value.to_bytes(4, "little", signed=True)

    empty = (
        b"cnumpy.core.multiarray\n_reconstruct\n" + b"cnumpy\nndarray\n" + number(0) + b"\x85" + text(b"b")
    )
    dtype = b"cnumpy\ndtype\n" + text(b"u1") + number(0) + number(1) + b"\x87R"
    dtype += b"(" + number(3) + text(b"|") + b"NNN" + number(-1) + number(-1) + number(0) + b"tb"
    shape = number(data.shape[0]) + number(data.shape[1]) + b"\x86"
    array = empty + b"\x87R(" + number(1) + shape + dtype + b"\x89" + text(data.tobytes()) + b"tb"
    items = text(b"data") + array + text(b"labels") + b"](" + b"".join(map(number, labels)) + b"e"
    return b"\x80\x02}(" + items + b"u."


def write_cifar(folder: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Write the six pickles of CIFAR-10; return images and labels of each."""
    folder.mkdir(parents=True)
    parts = {}
    for i, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        labels = np.random.RandomState(i).permutation(np.arange(BATCH) % 10)
        parts[name] = (pixels(BATCH, i), labels)
        (folder / name).write_bytes(old_pickle(parts[name][0], labels.tolist()))
    return parts


def noise(n: int, seed: int = 0) -> np.ndarray:
    """Return (n,) samples of 16 bits."""
    return (3000 * np.random.RandomState(seed).standard_normal(n)).astype(np.int16)


def write_wav(file: Path, samples: np.ndarray, rate: int = RATE, channels: int = 1) -> None:
    """Write a recording of 16 bits."""
    with wave.open(str(file), "wb") as out:
        out.setparams((channels, 2, rate, 0, "NONE", ""))
        out.writeframes(samples.astype("<i2").tobytes())


def write_speech(folder: Path) -> None:
    """Write Speech Commands: ten words, six speakers who each say them once; two are in each list."""
    lists = {"validation_list.txt": [], "testing_list.txt": []}
    for w, word in enumerate(TEN):
        (folder / word).mkdir(parents=True)
        for s in range(6):
            name = f"{word}/{s:08x}_nohash_{w % 2}.wav"
            write_wav(folder / name, noise(RATE if s != 5 else 900, seed=10 * w + s))
            if s in (1, 2):
                lists["validation_list.txt"].append(name)
            if s in (3, 4):
                lists["testing_list.txt"].append(name)
    for name, files in lists.items():
        (folder / name).write_text("\n".join(files))
    (folder / "_background_noise_").mkdir()


def expressions(examples) -> list[str]:
    """Return the expressions of ListOps as text."""
    starts, lengths = examples.starts[0].tolist(), examples.lengths[0].tolist()
    written = [SYMBOLS[token] for token in examples.flat.tolist()]
    return [" ".join(written[a : a + n]) for a, n in zip(starts, lengths, strict=True)]


def value(expression: str) -> int:
    """Return the value of an expression, by recursion over its words and apart from the generator's way."""
    words = iter(expression.split())

    def node(word: str) -> int:
        if word.isdigit():
            return int(word)
        arguments = []
        while (inner := next(words)) != "]":
            arguments.append(node(inner))
        match word:
            case "[MIN":
                return min(arguments)
            case "[MAX":
                return max(arguments)
            case "[MED":
                return int(np.median(arguments))
            case "[SM":
                return sum(arguments) % 10
        raise AssertionError(word)

    found = node(next(words))
    assert next(words, None) is None
    return found


def binary(expression: str) -> str:
    """Return an expression in the parentheses of the release: every argument is applied in turn."""
    words = iter(expression.split())

    def node(word: str) -> str:
        if word.isdigit():
            return word
        while (inner := next(words)) != "]":
            word = f"( {word} {node(inner)} )"
        return f"( {word} ] )"

    return node(next(words))


def write_listops(folder: Path) -> None:
    """Write the three tables of ListOps."""
    folder.mkdir(parents=True)
    for split in SPLITS:
        examples = ListOps().tiny().load(split)
        rows = zip(expressions(examples), examples.targets.tolist(), strict=True)
        lines = ["Source\tTarget", *(f"{binary(expression)}\t{y}" for expression, y in rows)]
        (folder / f"basic_{split}.tsv").write_text("\n".join(lines) + "\n")


def write_pythia(folder: Path) -> None:
    """Write a checkpoint of a tiny Pythia whose tokens are letters."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    config = transformers.GPTNeoXConfig(**SIZES, intermediate_size=32, bos_token_id=0, eos_token_id=0)
    transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float16).save_pretrained(folder)
    words = Tokenizer(models.WordLevel({"?": 0} | {c: i for i, c in enumerate(LETTERS, 1)}, unk_token="?"))
    words.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    transformers.PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(folder)
