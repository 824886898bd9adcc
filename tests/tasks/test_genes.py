"""Genes: what files say is read or refused, every base is labelled once, and no locus is unlabelled."""

import io
import json
import tarfile
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from selfpretrain.cli import app
from selfpretrain.data.archives import read_package
from selfpretrain.data.spec import SPLITS
from selfpretrain.errors import DataError, SpecError
from selfpretrain.tasks.common.genbank import BASES, Locus, read_fasta, read_genbank, read_location
from selfpretrain.tasks.genes import PACKAGE, TUTORIAL, Genes, divide, locate, make_synthetic, window_starts


def letters(bases):
    return "".join(BASES[token] for token in bases)


def genbank(loci):
    """Records in GenBank's flat format, with locations and sequences broken into lines."""
    text = ""
    for locus in loci:
        spans = ",".join(f"{first + 1}..{last}" for first, last in locus.exons)
        location = f"join({spans})" if len(locus.exons) > 1 else spans
        location = f"complement({location})" if locus.reverse else location
        lines = [location[i : i + 20] for i in range(0, len(location), 20)]
        text += f"LOCUS       {locus.name}   {len(locus.bases)} bp  DNA\nFEATURES             Location\n"
        text += f"     source          1..{len(locus.bases)}\n"
        text += "     CDS             " + ("\n" + 21 * " ").join(lines) + '\n                     /gene="1"\n'
        text += "BASE COUNT     1 a\nORIGIN\n"
        bases = letters(locus.bases)
        text += "".join(f"{i + 1:>9} {bases[i : i + 10]}\n" for i in range(0, len(bases), 10)) + "//\n"
    return text


def fasta(chromosome):
    text = letters(chromosome)
    return ">chr\n" + "\n".join(text[i : i + 50].upper() for i in range(0, len(text), 50)) + "\n"


def package(path, files, compression="xz", more=()):
    """A Debian package with files by name, and a link, as the real one has."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode=f"w:{compression}") as archive:
        link = tarfile.TarInfo("./usr/share/doc/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
        for name, content in files.items():
            info = tarfile.TarInfo(f"./{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    members = [("debian-binary", b"2.0\n"), ("odd", b"123"), (f"data.tar.{compression}", data.getvalue())]
    text = b"!<arch>\n"
    for name, content in members:
        text += f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode()
        text += content + b"\n" * (len(content) % 2)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)
    return path


@pytest.fixture(scope="module")
def small():
    """Loci and their chromosome."""
    return make_synthetic(24)


@pytest.fixture
def here(home, small, monkeypatch):
    """The loci in a package where they are looked for; stretches are as short as the chromosome is."""
    loci, chromosome = small
    files = {f"{TUTORIAL}/results/genes.gb": genbank(loci), f"{TUTORIAL}/data/chr2R.fa": fasta(chromosome)}
    package(home / "raw" / PACKAGE, {name: text.encode() for name, text in files.items()})
    monkeypatch.setattr("selfpretrain.tasks.genes.STRETCH", 600)
    return home


def test_records_are_read_as_they_were_written(small):
    found = list(read_genbank(genbank(small[0]), "x.gb"))
    for locus, again in zip(small[0], found, strict=True):
        assert (again.name, again.reverse) == (locus.name, locus.reverse)
        assert np.array_equal(again.bases, locus.bases) and np.array_equal(again.exons, locus.exons)
    assert np.array_equal(read_fasta(fasta(small[1]), "x.fa"), small[1])


def test_bases_get_the_class_of_their_part_of_the_gene():
    exons, reverse = read_location("join(2..5,8..9)", 10)
    locus = Locus("x", np.zeros(10, np.uint8), exons, reverse)
    assert locus.labels("coding").tolist() == [0, 1, 1, 1, 1, 0, 0, 1, 1, 0]
    assert locus.labels("frames").tolist() == [0, 2, 3, 4, 2, 1, 1, 3, 4, 0]
    exons, reverse = read_location("complement(join(2..5,8..9))", 10)
    assert Locus("x", locus.bases, exons, reverse).labels("frames").tolist() == [0, 4, 3, 2, 4, 1, 1, 3, 2, 0]


@st.composite
def some_locus(draw):
    edges = sorted(draw(st.sets(st.integers(0, 60), min_size=2, max_size=10)))
    exons = np.array(edges[: len(edges) // 2 * 2]).reshape(-1, 2)
    bases = np.array(draw(st.lists(st.integers(0, 4), min_size=60, max_size=60)), np.uint8)
    return Locus("x", bases, exons, draw(st.booleans()))


@given(some_locus(), st.sampled_from(["coding", "frames"]))
def test_labels_move_with_their_bases_to_the_other_strand(locus, target):
    turned = locus.turned()
    assert np.array_equal(turned.labels(target), locus.labels(target)[::-1])
    assert turned.reverse != locus.reverse
    again = next(read_genbank(genbank([turned.turned()]), "x.gb"))
    assert np.array_equal(again.bases, locus.bases) and np.array_equal(again.exons, locus.exons)


@pytest.mark.parametrize(
    "location",
    [
        *("", "5", "0..4", "5..12", "4..3", "join(1..4,3..8)", "join(5..8,1..2)", "1..x", "a:1..4"),
        *("order(1..2,4..5)", "join(1..2,complement(4..5))", "complement(1..4", "1..99999999999999999999"),
        *("join()", "join(1..2,)", "(" * 5000, "٣..4"),
    ],
)
def test_locations_that_make_no_sense_are_refused(location):
    if location == "5":  # one base, which is a span
        assert read_location(location, 10)[0].tolist() == [[4, 5]]
        return
    with pytest.raises(ValueError, match="spans"):
        read_location(location, 10)


GOOD = genbank(make_synthetic(1)[0])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "does not end with a record"),
        (GOOD[:-3], "does not end with a record"),
        (GOOD + "LOCUS", "does not end with a record"),
        (GOOD.replace("LOCUS", "LOCI "), "record 1 of x.gb: it does not begin with LOCUS"),
        (GOOD.replace(" bp", "1 bp"), "bases, not the"),
        (GOOD.replace("ORIGIN", "ORGAN"), "has 0 bases"),
        (GOOD.replace("     CDS  ", "     gene "), "0 coding sequences"),
        (GOOD.replace("     source", "     CDS   "), "2 coding sequences"),
        (GOOD.replace("join(", "join(1..2000,"), "overlap or leave"),
        (GOOD.replace("ORIGIN", f"{' ' * 21}/codon_start=2\nORIGIN", 1), "begins inside of a codon"),
        (GOOD[: GOOD.index("ORIGIN") + 17] + "!" + GOOD[GOOD.index("ORIGIN") + 18 :], "'!' is no base"),
    ],
)
def test_damaged_records_are_refused_in_one_line(text, said):
    with pytest.raises(DataError, match=said) as caught:
        list(read_genbank(text, "x.gb"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "acgt", ">one\n", ">one\nac\n>two\ngt\n", ">one\nac!\n"])
def test_other_files_than_one_sequence_in_fasta_are_refused(text):
    with pytest.raises(DataError, match=r"x\.fa"):
        read_fasta(text, "x.fa")


@given(st.integers(1, 5000), st.integers(16, 600), st.booleans())
def test_windows_reach_from_end_to_end(length, window, half):
    step = window // 2 if half else window
    starts = window_starts(length, window, step)
    assert starts[0] == 0 and starts[-1] == max(0, length - window)
    assert (np.diff(starts) <= step).all() and (np.diff(starts) > 0).all()


@pytest.mark.parametrize("target", ["coding", "frames"])
@pytest.mark.parametrize("window", [32, 51, 512])
def test_every_held_out_base_is_scored_once_and_every_training_base_at_least_once(target, window):
    loci = {letters(x.bases): x.labels(target) for y in make_synthetic()[0] for x in (y, y.turned())}
    task = Genes(made_up=True, target=target, window=window)
    seen = 0
    for split in SPLITS:
        examples = task.load(split)
        for group in examples.groups[examples.labelled].unique().tolist():
            rows = (examples.groups == group).nonzero()[:, 0]
            begin = int(examples.starts[0, rows].min())
            end = int((examples.starts[0, rows] + examples.lengths[0, rows]).max())
            labels = loci[letters(examples.flat[begin:end].tolist())]
            times = np.zeros(end - begin, dtype=int)
            for row in rows.tolist():
                known = np.flatnonzero(examples.targets[row] >= 0)
                assert known.max() < int(examples.lengths[0, row])
                place = int(examples.starts[0, row]) - begin + known
                assert np.array_equal(examples.targets[row, known], labels[place])
                times[place] += 1
            assert (times >= 1).all() and (split == "train" or (times == 1).all())
            seen += 1
    assert seen == 40


def test_no_locus_is_among_the_unlabelled_bases_and_nothing_else_is_missing():
    loci, chromosome = make_synthetic()
    chromosome[295] = BASES.index("n")
    places, outside = locate(loci, chromosome)
    covered = np.zeros(len(chromosome), dtype=bool)
    for place, locus in zip(places, loci, strict=True):
        assert np.array_equal(chromosome[place : place + len(locus.bases)], locus.bases)
        covered[place : place + len(locus.bases)] = True
    assert np.array_equal(outside, ~covered & (np.arange(len(chromosome)) != 295))
    task = Genes(made_up=True, window=16)
    train = task.load("train")
    free = train.take((~train.labelled).nonzero()[:, 0])
    text = " ".join(letters(free.sequence(row)) for row in range(len(free)))
    assert len(free) > 40
    assert not any(letters(x.bases)[i : i + 16] in text for x in loci for i in range(0, 140, 16))


def test_copies_of_a_locus_are_left_out_and_a_foreign_one_is_refused():
    loci, chromosome = make_synthetic()
    first = loci[0].bases
    doubled = np.concatenate([chromosome, first])
    assert not locate(loci, doubled)[1][-len(first) :].any()
    places, _ = locate([loci[0], replace(loci[0], name="again")], doubled)
    assert places.tolist() == [int(places[0]), len(chromosome)]
    with pytest.raises(DataError, match="locus-0 is not on the chromosome"):
        locate(loci[:1], chromosome[300:])
    short = Locus("short", chromosome[:12], np.array([[0, 3]]), False)
    with pytest.raises(DataError, match="short has fewer than 16 bases"):
        locate([short], chromosome)


def test_loci_are_divided_in_whole_stretches_and_those_that_overlap_stay_together():
    places = np.arange(0, 100_000, 700)
    lengths = np.full(len(places), 600)
    split = divide(places, lengths, 5_000, 0)
    assert all(len(set(split[places // 5_000 == stretch])) == 1 for stretch in range(20))
    assert 0.5 < (split == 0).mean() < 0.9 and set(split) == {0, 1, 2}
    lengths[places < 50_000] = 800  # in a chain
    split = divide(places, lengths, 5_000, 0)
    assert len(set(split[places < 50_000])) == 1
    assert not np.array_equal(divide(places, lengths, 5_000, 1), split)


def test_labelled_loci_are_nested_and_whole():
    task = Genes(made_up=True, window=64)
    everything = task.load("train")
    known = set(everything.groups[everything.labelled].tolist())
    assert known == set(range(len(known)))
    before = torch.zeros(len(everything), dtype=torch.bool)
    for loci in (1, 5, len(known)):
        some = replace(task, loci=loci).load("train")
        assert set(some.groups[some.labelled].tolist()) == set(range(loci))
        assert torch.equal(some.targets[some.labelled], everything.targets[some.labelled])
        assert some.digests() == everything.digests() and not (before & ~some.labelled).any()
        assert replace(task, loci=loci).load("test").labelled.all()
        before = some.labelled
    with pytest.raises(SpecError, match=f"{len(known)} training loci have labels; lower it"):
        replace(task, loci=len(known) + 1).load("train")
    assert replace(task, loci=3).version() == task.version()
    assert Genes(loci=3).folder == Genes().folder != Genes(window=64).folder


def test_the_seed_of_the_data_decides_strands_and_division():
    one, same, other = (Genes(made_up=True, split_seed=seed).load("train") for seed in (0, 0, 1))
    assert one.digests() == same.digests() != other.digests()


@pytest.mark.parametrize("kind", ["xz", "gz", "folder"])
def test_a_package_and_a_folder_give_the_same_examples(kind, here, small):
    found = Genes(window=64).load("test")
    (here / "raw" / PACKAGE).unlink()
    files = {"results/genes.gb": genbank(small[0]), "data/chr2R.fa": fasta(small[1])}
    if kind == "folder":
        for name, text in files.items():
            path = here / "augustus-doc" / TUTORIAL / name
            path.parent.mkdir(parents=True)
            path.write_text(text)
    else:
        contents = {f"{TUTORIAL}/{name}": text.encode() for name, text in files.items()}
        package(here / "augustus-doc" / PACKAGE, contents, kind)
    again = Genes(window=64, target="frames").load("test")
    assert again.digests() == found.digests()


def test_a_package_that_swells_is_refused(tmp_path):
    bomb = {"zeros": bytes(1 << 25), "wanted": b"1"}
    with pytest.raises(DataError, match="bytes would become more than"):
        read_package(package(tmp_path / "x.deb", bomb), ["wanted"])


def test_a_package_of_another_kind_is_refused_in_one_line(here, capsys):
    file = here / "raw" / PACKAGE
    whole = file.read_bytes()
    for content, said in (
        (b"", "no Debian package"),
        (whole[:-30], "is damaged, or no Debian package"),
        (whole[: len(whole) // 2], "its end is missing"),
        (whole.replace(b"data.tar.xz", b"dato.tar.xz"), "it has no data"),
        (whole.replace(b"`\n", b"``"), "a header is damaged"),
    ):
        file.write_bytes(content)
        with pytest.raises(DataError, match=said) as caught:
            Genes(window=64).load("train")
        assert "\n" not in str(caught.value)
    package(file, {f"{TUTORIAL}/results/genes.gb": b""})
    assert app.run(["data", "make", "genes"]) == 2
    assert f"has no file {TUTORIAL}/data/chr2R.fa" in " ".join(capsys.readouterr().err.split())


def test_a_small_comparison_reports_the_correlation(home, tmp_path):
    words = "compare --task genes --mixers s4d --seeds 1 --scale smoke --arms matched,spt --quiet"
    assert app.run([*words.split(), "--runs", str(tmp_path)]) == 0
    results = [json.loads(path.read_text()) for path in tmp_path.glob("stages/*token*/result.json")]
    assert results and all({"accuracy", "MCC"} <= set(each["scores"]["test"]) for each in results)


def test_a_plan_needs_no_data(home):
    assert app.run(["compare", "--task", "genes", "--mixers", "s4d", "--seeds", "1", "--dry-run"]) == 0
    assert not home.exists()
    stub = Genes(window=512, loci=20).stubbed()
    assert len(stub.load("train")) == 4 * len(Genes().stubbed().load("train"))
    assert stub.form == replace(Genes(made_up=True, window=512)).form


@pytest.mark.needs_data("augustus-doc")
def test_the_real_loci(real_data):
    task = Genes(window=4_096)
    train, val, test = (task.load(split) for split in SPLITS)
    loci = [len(x.groups[x.labelled].unique()) for x in (train, val, test)]
    assert sum(loci) == 586 and loci[0] > 400
    targets = [x.targets[x.targets >= 0] for x in (val, test)]
    assert all(0.15 < float((y == 1).float().mean()) < 0.5 for y in targets)
    assert int((~train.labelled).sum()) * 4_096 > 17_000_000
