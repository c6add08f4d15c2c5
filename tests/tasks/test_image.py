"""CIFAR-10 in grey: pixel for pixel, in the official splits, with black as a colour."""

import inspect
from hashlib import md5
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf
from PIL import Image

from tasks import image
from tasks.archives import NotFound
from tasks.errors import DataError
from tasks.image import to_grey
from tasks.task import Split, Task
from tests.tasks.raw import TINY_EXAMPLES, cifar, write_folder, write_tar

ROOT = Path(__file__).parents[2]
FILES, IMAGES, LABELS = cifar()


@pytest.fixture(autouse=True)
def _no_other_places(monkeypatch, tmp_path):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "nowhere"))


def load(cache_dir, data_dir, **changes) -> Task:
    keywords: dict[str, Any] = {"max_length": 1024, "grey": "tf", "examples": TINY_EXAMPLES["image"]}
    return image.load(**{"source": "official", "cache_dir": cache_dir, "data_dir": data_dir} | keywords | changes)


def pixels(split: Split) -> np.ndarray:
    return np.stack([split.sequence(i) for i in range(len(split))])


@pytest.fixture(scope="module")
def task(tmp_path_factory) -> Task:
    data = write_tar(tmp_path_factory.mktemp("data") / "cifar-10-binary.tar.gz", FILES).parent
    return load(tmp_path_factory.mktemp("cache"), data)


def test_the_splits_are_the_official_ones(task):
    """The last tenth of the training images, in the order of md5(split + position), validates."""
    train = sorted(range(50), key=lambda i: int(md5(b"train" + str(i).encode()).hexdigest(), 16))
    test = sorted(range(10), key=lambda i: int(md5(b"test" + str(i).encode()).hexdigest(), 16))
    expected = {"train": train[:45], "validation": train[45:], "test": [50 + i for i in test]}
    for name, order in expected.items():
        split = getattr(task, name)
        np.testing.assert_array_equal(pixels(split), to_grey(IMAGES[order], "tf").reshape(len(order), 1024))
        assert split.labels.tolist() == LABELS[order].tolist()
    assert sum(image.FULL_SIZES.values()) == 60_000
    assert image.FULL_SIZES["validation"] == 5000


def test_the_task_says_what_it_is(task):
    assert (task.name, task.source, task.shape, task.max_length) == ("image", "official", (256, 10, False), 1024)
    assert (task.truncated_fraction, task.skipped_files) == (0.0, ())
    assert task.baselines["majority"] == 0.1
    assert task.train.tokens.dtype == np.uint8


def test_black_is_not_padding(task):
    """All-black, all-white and mixed images are of one length, from which masks follow."""
    batch = task.train.batch(np.arange(45), 1024)
    assert batch.tokens.min() == 0
    assert {0, 1024 * 255} <= set(batch.tokens.sum(1).tolist()), "a black and a white image are among them"
    assert (batch.lengths == 1024).all()


# Grey


def test_grey_is_tensorflow_s_formula():
    """Every 17th value of each channel, in exact arithmetic where float32 cannot round across a whole number."""
    colours = np.stack(np.meshgrid(*[np.arange(0, 256, 17, dtype=np.uint8)] * 3), -1).reshape(-1, 3)
    weights = np.array([2989, 5870, 1140])
    exact = colours.astype(np.int64) @ weights * 2555 / (255 * 10_000 * 10)
    safe = np.abs(exact - np.round(exact)) > 1e-4
    assert safe.mean() > 0.99
    np.testing.assert_array_equal(to_grey(colours, "tf")[safe], np.floor(exact[safe]).astype(np.uint8))
    # written down from the formula in float32, where the exact value lies on a whole number or close to one
    known = {(0, 0, 0): 0, (255, 255, 255): 255, (255, 0, 0): 76, (0, 255, 0): 149, (0, 0, 255): 29, (1, 1, 1): 1}
    assert to_grey(np.array([*known], np.uint8), "tf").tolist() == [*known.values()]


def test_grey_pil_is_pillow_s():
    colours = np.random.default_rng(0).integers(0, 256, (100, 100, 3), dtype=np.uint8)
    np.testing.assert_array_equal(to_grey(colours, "pil"), np.asarray(Image.fromarray(colours).convert("L")))
    differing = to_grey(colours, "pil").astype(int) - to_grey(colours, "tf")
    assert 0.2 < (differing != 0).mean() < 0.3
    assert np.abs(differing).max() == 1


def test_the_named_formula_is_used(task, tmp_path):
    write_tar(tmp_path / "cifar-10-binary.tar", FILES)
    other = load(tmp_path / "cache", tmp_path, grey="pil")
    assert other.fingerprint != task.fingerprint
    assert 0.2 < (pixels(other.train) != pixels(task.train)).mean() < 0.3
    with pytest.raises(DataError, match="unknown grey formula 'luma'; it is tf or pil"):
        load(tmp_path / "cache", tmp_path, grey="luma")


# Forms


@pytest.mark.parametrize("form", ["cifar-10-binary.tar", "folder", "inside", "downloads/cifar10"])
def test_every_form_gives_the_same_data(task, tmp_path, form):
    data_dir = tmp_path / "data"
    if form in ("folder", "inside"):
        write_folder(data_dir, FILES)
        data_dir = data_dir / "cifar-10-batches-bin" if form == "inside" else data_dir
    elif form == "downloads/cifar10":
        name = "cs.toronto.edu_kriz_cifar-10-binaryODHPtIjLh3oLcXirEISTO7dkzyKjRCuol6lV8Wc6C7s.tar.gz"
        write_tar(data_dir / form / name, FILES)
    else:
        write_tar(data_dir / form, FILES)
    assert load(tmp_path / "cache", data_dir).fingerprint == task.fingerprint


def test_batches_may_come_in_any_order(task, tmp_path):
    write_tar(tmp_path / "cifar-10-binary.tar.gz", dict(reversed(FILES.items())))
    assert load(tmp_path / "cache", tmp_path).fingerprint == task.fingerprint


BATCH = "cifar-10-batches-bin/data_batch_2.bin"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"lacks data_batch_2\.bin"),
        (b"", "0 bytes are no whole number of records of 3,073 bytes"),
        (FILES[BATCH][:-1], "30,729 bytes are no whole number"),
        (b"<html>", "6 bytes are no whole number"),
        (FILES[BATCH][:3073] + b"\x0a" + FILES[BATCH][3074:], "record 1 has the label 10; labels are 0 to 9"),
        (FILES[BATCH][:3073], "train images: 37 of 45 examples are there; it is incomplete"),
    ],
)
def test_damage_is_named(tmp_path, content, message):
    files = {name: text for name, text in FILES.items() if name != BATCH}
    write_tar(tmp_path / "cifar-10-binary.tar.gz", files | ({} if content is None else {BATCH: content}))
    with pytest.raises(DataError, match=message):
        load(tmp_path / "cache", tmp_path)


def test_an_incomplete_set_is_an_error(tmp_path):
    write_tar(tmp_path / "cifar-10-binary.tar.gz", FILES)
    with pytest.raises(DataError, match="train images: 45 of 45,000 examples are there"):
        load(tmp_path / "cache", tmp_path, examples={})


def test_fewer_examples_and_pixels_are_the_first(task, tmp_path):
    write_tar(tmp_path / "cifar-10-binary.tar.gz", FILES)
    fewer = load(tmp_path / "cache", tmp_path, max_length=100, examples={"train": 7, "validation": 2, "test": 3})
    np.testing.assert_array_equal(pixels(fewer.train), pixels(task.train)[:7, :100])
    np.testing.assert_array_equal(pixels(fewer.validation), pixels(task.validation)[:2, :100])
    assert (len(fewer.test), fewer.truncated_fraction, fewer.max_length) == (3, 1.0, 100)
    with pytest.raises(DataError, match="an image has 1,024 pixels"):
        load(tmp_path / "cache", tmp_path, max_length=1025)


def test_pickles_are_named_and_never_loaded(tmp_path):
    """The Python version of the archive, if loaded, would run what it likes."""
    evil = b"cos\nsystem\n(S'touch " + str(tmp_path / "ran").encode() + b"'\ntR."
    write_folder(tmp_path / "cifar-10-batches-py", {"data_batch_1": evil, "test_batch": evil})
    with pytest.raises(NotFound) as error:
        load(tmp_path / "cache", tmp_path)
    assert f"{tmp_path / 'cifar-10-batches-py'} is made of pickles, which are never loaded." in str(error.value)
    assert "cifar-10-binary.tar.gz (170,052,171 bytes, sha256 c4a38c50" in str(error.value)
    assert not (tmp_path / "ran").exists()


def test_the_configuration_lists_every_keyword():
    config: Any = OmegaConf.to_container(OmegaConf.load(ROOT / "configs/task/image.yaml"))
    assert config.pop("_target_") == "tasks.image.load"
    assert set(config) == set(inspect.signature(image.load).parameters)
    assert (config["max_length"], config["grey"]) == (1024, "tf")
    with pytest.raises(DataError, match="unknown source 'packaged'; it is official or surrogate"):
        image.locate("packaged", data_dir=".", cache_dir=".")
