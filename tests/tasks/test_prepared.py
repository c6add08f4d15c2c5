"""Sets prepared by tensorflow-datasets are read through its own data source, and agree with the archives."""

import sys
from pathlib import Path

import numpy as np
import pytest

from tasks import image, text
from tasks.archives import Found
from tasks.errors import DataError
from tasks.prepared import read_prepared
from tasks.task import Task
from tasks.tfds_order import percent
from tests.tasks.raw import TINY_EXAMPLES, cifar, imdb, prepare_cifar, prepare_imdb, write_tar

FILES, IMAGES, LABELS = cifar()
TEXT_SET, IMAGE_SET = Path("imdb_reviews/plain_text/1.0.0"), Path("cifar10/3.0.2")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("prepared")
    prepare_imdb(folder, imdb())
    prepare_cifar(folder, IMAGES, LABELS)
    return folder


def load_text(cache_dir: Path, data_dir: Path) -> Task:
    where = {"cache_dir": cache_dir, "data_dir": data_dir}
    return text.load(source="official", max_length=200, examples=TINY_EXAMPLES["text"], **where)


def load_image(cache_dir: Path, data_dir: Path) -> Task:
    where = {"cache_dir": cache_dir, "data_dir": data_dir}
    return image.load(source="official", max_length=1024, grey="tf", examples=TINY_EXAMPLES["image"], **where)


@pytest.mark.parametrize("usual_place", [False, True])
def test_reviews_agree_with_the_archive_s_to_the_order(prepared, tmp_path, monkeypatch, usual_place):
    archive = write_tar(tmp_path / "archive" / "aclImdb_v1.tar.gz", imdb()).parent
    monkeypatch.setenv("TFDS_DATA_DIR", str(prepared if usual_place else tmp_path / "nowhere"))
    found = load_text(tmp_path / "a", tmp_path / "nothing" if usual_place else prepared)
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "nowhere"))
    assert found.fingerprint == load_text(tmp_path / "b", archive).fingerprint


def test_images_agree_with_the_archive_s_to_the_order(prepared, tmp_path):
    archive = write_tar(tmp_path / "archive" / "cifar-10-binary.tar.gz", FILES).parent
    assert load_image(tmp_path / "a", prepared).fingerprint == load_image(tmp_path / "b", archive).fingerprint


def test_the_official_split_is_the_set_s_own_slice(prepared, tmp_path):
    """`train[:90%]`, as the released code asks for it."""
    import tensorflow_datasets as tfds

    builder = tfds.builder_from_directory(str(prepared / IMAGE_SET))
    task = load_image(tmp_path, prepared)
    for split, part in ((task.train, "train[:90%]"), (task.validation, "train[90%:]"), (task.test, "test")):
        rows = builder.as_data_source(split=part)
        assert split.labels.tolist() == [int(row["label"]) for row in rows]
        np.testing.assert_array_equal(split.sequence(3), image.to_grey(rows[3]["image"], "tf").reshape(-1))
    for share in range(7, 101, 7):
        assert percent(share, 50) == len(builder.as_data_source(split=f"train[:{share}%]"))


def test_an_archive_is_preferred(prepared, tmp_path):
    write_tar(tmp_path / "aclImdb_v1.tar.gz", imdb())
    (tmp_path / "imdb_reviews").symlink_to(prepared / "imdb_reviews")
    found = text.locate("official", data_dir=tmp_path, cache_dir=tmp_path)
    assert found == Found(tmp_path / "aclImdb_v1.tar.gz", "archive")
    (tmp_path / "aclImdb_v1.tar.gz").unlink()
    found = text.locate("official", data_dir=tmp_path, cache_dir=tmp_path)
    assert found == Found(tmp_path / TEXT_SET, "prepared")


def test_a_set_in_tensorflow_s_own_format_is_refused(prepared, tmp_path):
    facts = (prepared / TEXT_SET / "dataset_info.json").read_text()
    for name, changed in (("old", facts.replace("array_record", "tfrecord")), ("unsaid", '{"name": "imdb_reviews"}')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "dataset_info.json").write_text(changed)
        with pytest.raises(DataError, match=r"is prepared as tfrecord, which only TensorFlow reads.*'array_record'"):
            next(read_prepared(tmp_path / name, "train"))


def test_a_damaged_set_is_one_clear_error(prepared, tmp_path):
    with pytest.raises(DataError, match="tensorflow-datasets cannot read the split unheard: "):
        next(read_prepared(prepared / IMAGE_SET, "unheard"))
    for file in (prepared / IMAGE_SET).iterdir():
        if "train" not in file.name:
            (tmp_path / file.name).write_bytes(file.read_bytes())
    with pytest.raises(DataError, match="tensorflow-datasets cannot read the split train: "):
        next(read_prepared(tmp_path, "train"))
    (tmp_path / "dataset_info.json").write_text("{")
    with pytest.raises(DataError, match=r"dataset_info\.json cannot be read"):
        next(read_prepared(tmp_path, "train"))


def test_a_blocked_tensorflow_stays_blocked_and_disturbs_nothing(prepared, monkeypatch):
    """The package takes the None that blocks the import for the imported module, so it is out of sight meanwhile."""
    import tensorflow_datasets as tfds

    in_sight = []
    open_set = tfds.builder_from_directory

    def watched(folder):
        in_sight.append("tensorflow" in sys.modules)
        return open_set(folder)

    monkeypatch.setattr(tfds, "builder_from_directory", watched)
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    assert len([*read_prepared(prepared / IMAGE_SET, "test")]) == 10
    assert in_sight == [False]
    assert sys.modules["tensorflow"] is None
