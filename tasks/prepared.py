"""Sets that tensorflow-datasets has prepared, read through its own data source, without TensorFlow.

It reads the file format array_record that way; sets in its older default, tfrecord, need TensorFlow and are refused.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tasks.archives import Search
from tasks.errors import DataError

_AT_ONCE = 1000  # examples


def find_prepared(search: Search, name: str) -> Path | None:
    """The folder of a prepared set; `name` is its relative path without the version."""
    return search.first(f"{name}/*/", holding=["dataset_info.json"])


def read_prepared(folder: Path, split: str) -> Iterator[dict[str, Any]]:
    """The examples of one split, in the set's own order.

    Raises:
        DataError: the set is in a format that only TensorFlow reads, or cannot be read.
    """
    try:
        file_format = json.loads((folder / "dataset_info.json").read_text()).get("fileFormat", "tfrecord")
    except (OSError, ValueError) as error:
        raise DataError(f"{folder / 'dataset_info.json'} cannot be read: {error}") from None
    if file_format != "array_record":
        raise DataError(
            f"{folder} is prepared as {file_format}, which only TensorFlow reads. Prepare it anew, elsewhere, with "
            f"file_format='array_record', or use the original archive."
        )
    with _tensorflow_absent():
        import tensorflow_datasets as tfds  # takes seconds, and only a build needs it

        try:
            source = tfds.builder_from_directory(str(folder)).as_data_source(split=split)
            for first in range(0, len(source), _AT_ONCE):
                yield from source.__getitems__(range(first, min(first + _AT_ONCE, len(source))))
        except Exception as error:  # the package raises its own kinds for missing splits, files and features
            raise DataError(f"{folder}: tensorflow-datasets cannot read the split {split}: {error}") from None


@contextmanager
def _tensorflow_absent() -> Iterator[None]:
    """Hides a None in sys.modules, which blocks an import of TensorFlow and which the package takes for the module."""
    blocked = sys.modules.get("tensorflow", sys) is None
    if blocked:
        del sys.modules["tensorflow"]
    try:
        yield
    finally:
        if blocked:
            sys.modules.setdefault("tensorflow", None)  # type: ignore[arg-type]
