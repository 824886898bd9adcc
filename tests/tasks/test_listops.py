"""ListOps against an evaluator of its own, against counting, and against the reference generator."""

import csv
import math

import numpy as np
import pydantic
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from releases import binary, expressions, value, write_listops
from selfpretrain.data.spec import SPLITS
from selfpretrain.errors import DataError, SpecError
from selfpretrain.tasks.listops import ListOps, acceptance_rate


def tree(expression: str) -> tuple[int, int, list[int]]:
    """Depth of the deepest digit or operator, most and all numbers of arguments."""
    depth, deepest, counts, done = 0, 0, [], []
    for word in expression.split():
        if word == "]":
            done.append(counts.pop())
            depth -= 1
            continue
        if counts:
            counts[-1] += 1
        deepest = max(deepest, depth + 1)
        if word.startswith("["):
            counts.append(0)
            depth += 1
    assert depth == 0
    return deepest, max(done), done


@pytest.fixture(scope="module")
def paper():
    """The paper's setting, fewer expressions."""
    return ListOps(train=8000, val=20, test=20).load("train")


@pytest.fixture
def reference(needs_data):
    """Lengths, labels and roots of 50,000 expressions of the original generator."""
    with np.load(needs_data / "reference_fixtures/listops_reference_stats.npz") as arrays:
        return dict(arrays)


@pytest.mark.needs_data("reference_fixtures")
def test_the_evaluator_agrees_with_the_reference_fixtures(needs_data):
    file = needs_data / "reference_fixtures/listops_500.tsv"
    with file.open() as lines:
        rows = list(csv.DictReader(lines, delimiter="\t"))
    assert len(rows) == 500
    assert [value(row["Source"]) for row in rows] == [int(row["Target"]) for row in rows]


def test_values_are_right(paper):
    some = paper.take(torch.arange(500))
    assert [value(e) for e in expressions(some)] == some.targets.tolist()


@pytest.mark.needs_data("reference_fixtures")
def test_labels_roots_and_lengths_are_distributed_as_in_the_reference(paper, reference):
    labels, roots = paper.targets.numpy(), ListOps().shortcuts()["root operator"](paper).numpy()
    ours, theirs = (np.bincount(y, minlength=10) for y in (labels, reference["label"]))
    assert stats.chi2_contingency([ours, theirs]).pvalue > 0.01
    ours, theirs = (np.bincount(y, minlength=4) for y in (roots, reference["root_op"]))
    assert stats.chi2_contingency([ours, theirs]).pvalue > 0.01
    for root in range(4):
        ours = np.bincount(labels[roots == root], minlength=10)
        theirs = np.bincount(reference["label"][reference["root_op"] == root], minlength=10)
        seen = theirs >= 100  # rare cells make the statistic unreliable
        assert stats.chi2_contingency([ours[seen], theirs[seen]]).pvalue > 0.01 / 4
    assert stats.ks_2samp(paper.lengths[0].numpy(), reference["length"]).pvalue > 0.01


def test_arguments_are_distributed_as_in_the_reference_expressions(paper):
    """The number of arguments per root, which depends on the length of the whole: 2 .043 to 10 .166."""
    known = [0.043, 0.063, 0.084, 0.099, 0.116, 0.133, 0.146, 0.152, 0.166]
    roots = [_root_arguments(e) for e in expressions(paper.take(torch.arange(2000)))]
    counts = np.bincount(roots, minlength=11)[2:]
    expected = np.array(known) / sum(known) * len(roots)
    assert stats.chisquare(counts, expected).pvalue > 0.01


def _root_arguments(expression: str) -> int:
    depth, count = 0, 0
    for word in expression.split():
        count += depth == 1 and word != "]"
        depth += word.startswith("[") - (word == "]")
    return count


def test_the_share_of_kept_trees_is_that_of_the_generator():
    """Small enough to count: one operator of k digits has length k + 2."""
    task = ListOps(min_length=3, max_length=6, max_depth=2, max_args=10, train=10, val=1, test=1)
    assert acceptance_rate(task) == pytest.approx(2 / 9)
    assert acceptance_rate(ListOps()) == pytest.approx(1 / 3.02, abs=0.005)


def test_all_trees_of_a_small_world_are_found_once():
    """Length 4 holds 4 operators times 100 pairs of digits."""
    world = ListOps(min_length=3, max_length=5, max_depth=2, max_args=2, train=300, val=50, test=50)
    found = [e for split in ("train", "val", "test") for e in expressions(world.load(split))]
    operators = ("MIN", "MAX", "MED", "SM")
    assert sorted(found) == sorted(f"[{o} {a} {b} ]" for o in operators for a in range(10) for b in range(10))


def test_blocks_do_not_matter(monkeypatch):
    """Memory set aside in small blocks gives the same expressions."""
    from selfpretrain.tasks import listops

    small = ListOps().tiny()
    whole = listops._generate.__wrapped__(small)
    monkeypatch.setattr(listops, "BLOCK", 7 * small.max_length)
    parts = listops._generate.__wrapped__(small)
    assert whole.digests() == parts.digests()
    assert torch.equal(whole.targets, parts.targets)


def test_another_seed_gives_other_trees():
    one, other = (
        set(expressions(ListOps(300, 400, train=50, val=5, test=5, seed=s).load("train"))) for s in (0, 1)
    )
    assert not one & other


@given(
    st.integers(1, 60), st.integers(5, 60), st.integers(2, 7), st.integers(2, 12), st.integers(0, 2**63 - 1)
)
def test_any_shape_is_honoured(shortest, room, depth, args, seed):
    try:
        task = ListOps(shortest, shortest + room, depth, args, train=10, val=5, test=5, seed=seed)
        splits = [task.load(split) for split in ("train", "val", "test")]
    except (pydantic.ValidationError, SpecError) as error:
        longest = math.inf if depth > 6 else sum(2 * args**i for i in range(depth - 1)) + args ** (depth - 1)
        assert longest <= shortest or "expressions" in str(error)
        return
    found = [e for examples in splits for e in expressions(examples)]
    assert len(set(found)) == len(found) == 20
    assert [value(e) for e in found] == [int(y) for examples in splits for y in examples.targets]
    for e in found:
        deepest, most, _ = tree(e)
        assert shortest < len(e.split()) < shortest + room
        assert deepest <= depth
        assert 2 <= most <= args


@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        ({"min_length": 30, "max_length": 31}, "raise max_length"),
        ({"min_length": 500, "max_depth": 3, "max_args": 4}, "reach 26 symbols at most"),
        ({"min_length": 0}, "greater than or equal to 1"),
        ({"max_args": 1}, "greater than or equal to 2"),
        ({"min_length": 3, "max_length": 5, "train": 10_000}, "only 400 distinct"),
        (
            {"min_length": 1500, "max_length": 1540, "max_depth": 10, "max_args": 2, "train": 10},
            "too few to find",
        ),
    ],
)
def test_what_cannot_be_or_takes_forever_is_refused(settings, advice):
    with pytest.raises((pydantic.ValidationError, SpecError), match=advice):
        ListOps(**settings).load("train")


@pytest.fixture
def release(tmp_path, monkeypatch):
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(tmp_path))
    folder = tmp_path / "lra_release" / "lra_release" / "listops-1000"
    write_listops(folder)
    return folder


def test_released_expressions_are_read(release):
    assert binary("[MAX 4 3 ]") == "( ( ( [MAX 4 ) 3 ) ] )", "as in the release"
    for split in SPLITS:
        ours, theirs = ListOps().tiny().load(split), ListOps(source="lra").load(split)
        assert expressions(theirs) == expressions(ours)
        assert torch.equal(theirs.targets, ours.targets)
    said = "".join(ListOps().symbols()[token] for token in ours.sequence(0).tolist())
    assert said.strip() == expressions(ours)[0].strip()
    few = ListOps(source="lra", train=7).load("train")
    assert few.digests() == ListOps(source="lra").load("train").digests()[:7]
    with pytest.raises(DataError, match="raise max_length"):
        ListOps(5, 20, source="lra").load("train")
    (release / "basic_val.tsv").unlink()
    with pytest.raises(DataError, match=r"basic_val.tsv: run `selfpretrain data get listops --release`"):
        ListOps(source="lra", seed=1).load("val")


@pytest.mark.needs_data("reference_fixtures")
def test_expressions_of_the_original_generator_are_read(needs_data, release):
    with (needs_data / "reference_fixtures/listops_500.tsv").open() as lines:
        rows = [(row["Source"], row["Target"]) for row in csv.DictReader(lines, delimiter="\t")]
    lines = ["Source\tTarget", *(f"{binary(source)}\t{y}" for source, y in rows)]
    (release / "basic_val.tsv").write_text("\n".join(lines))
    examples = ListOps(source="lra").load("val")
    assert [e.strip() for e in expressions(examples)] == [source for source, _ in rows]
    assert examples.targets.tolist() == [int(y) for _, y in rows]


def test_the_version_is_that_of_the_released_files(release):
    before = ListOps(source="lra").version()
    copy = release.parent.parent.parent / "listops-1000"
    release.rename(copy)
    assert ListOps(source="lra").version() == before
    file = copy / "basic_test.tsv"
    file.write_text(file.read_text() + "( ( ( [MAX 4 ) 3 ) ] )\t4\n")
    assert ListOps(source="lra").version() != before
    assert ListOps().version() == ""


@pytest.mark.parametrize(
    "line", ["( ( ( [MOX 4 ) 3 ) ] )\t4", "( ( ( [MAX 4 ) 3 ) ] )", "( ( ( [MAX 4 ) 3 ) ] )\t14", "\t4", ""]
)
def test_another_line_is_refused(release, line):
    with (release / "basic_val.tsv").open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(DataError, match=r"line 42 of .*basic_val.tsv"):
        ListOps(source="lra").load("val")
