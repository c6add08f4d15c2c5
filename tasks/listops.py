"""ListOps: the value 0..9 of a nested expression over MIN, MAX, MED and SM, written out as up to 2,000 tokens.

Source `generated` draws the expressions from the published law (`tasks.listops_generator`); `official` reads the
released `basic_{train,val,test}.tsv`. Both pass the same encoder: 15 tokens, 0 for padding, parentheses dropped.

Nangia and Bowman 2018, https://arxiv.org/abs/1804.06028; Tay et al. 2020, https://arxiv.org/abs/2011.04006.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import numpy as np

from tasks import baselines
from tasks.archives import Found, Search
from tasks.cache import SPLITS, Report, cached
from tasks.errors import DataError
from tasks.listops_generator import CLOSE, IDS, MIN, VOCABULARY, Law, evaluate, sample_distinct
from tasks.task import Shape, Split, Task

VERSION = 1
SHAPE = Shape(vocab_size=len(VOCABULARY) + 1, num_classes=10)
OFFICIAL_FILES = {"train": "basic_train.tsv", "validation": "basic_val.tsv", "test": "basic_test.tsv"}

_NO_PARENTHESES = str.maketrans("", "", "()")
_ROWS = 1000  # rows of a file checked at once


def load(
    *,
    source: Literal["generated", "official"],
    cache_dir: str | Path,
    data_dir: str | Path,
    max_length: int,
    min_length: int,
    max_depth: int,
    max_args: int,
    operator_probability: float,
    examples: Mapping[str, int],
    seed: int,
) -> Task:
    """ListOps with its baselines, from the cache where it has been built before.

    Args:
        source: `generated` or `official`.
        cache_dir: where encoded data is kept.
        data_dir: where the released files are looked for; read by `official` only.
        max_length: generated expressions are shorter than this; official ones are cut at it.
        min_length, max_depth, max_args, operator_probability, seed: the law and its draw; read by `generated` only.
        examples: size of each split, `train`, `validation` and `test`; official splits keep their first rows.

    Raises:
        DataError: missing or malformed files, an impossible law, or a cache that cannot be written.
    """
    sizes = {name: int(examples[name]) for name in SPLITS if name in examples}
    if set(examples) != set(SPLITS) or min(sizes.values()) < 1:
        raise DataError(f"listops: examples must give 1 or more for each of {', '.join(SPLITS)}, not {dict(examples)}")
    found = locate(source, data_dir=data_dir, cache_dir=cache_dir)
    if source == "generated":
        law = Law(min_length, max_length, max_depth, max_args, operator_probability)
        return cached(
            lambda report: _task(_generate(law, seed, sizes, report), source, max_length),
            cache_dir=cache_dir,
            name="listops",
            version=VERSION,
            source=source,
            parameters={"law": vars(law), "seed": seed, "examples": sizes},
        )
    assert found is not None
    files = {split: found.path / name for split, name in OFFICIAL_FILES.items()}
    return cached(
        lambda report: _task(_read_official(files, sizes, report), source, max_length),
        cache_dir=cache_dir,
        name="listops",
        version=VERSION,
        source=source,
        parameters={"max_length": max_length, "examples": sizes},
        files=files.values(),
    )


def encode(text: str) -> np.ndarray:
    """Token ids of an expression, uint8 [L]; parentheses are dropped, brackets kept. A strange token is a KeyError."""
    return np.array([IDS[token] for token in text.translate(_NO_PARENTHESES).split()], np.uint8)


def show(tokens: np.ndarray) -> str:
    """The expression of token ids [L], without the parentheses of the released files."""
    return " ".join(VOCABULARY[token - 1] for token in tokens)


def locate(source: str, *, data_dir: str | Path, cache_dir: str | Path) -> Found | None:
    """The folder of the three released files, None for what is generated; raises NotFound with every path tried."""
    if source == "generated":
        return None
    if source != "official":
        raise DataError(f"listops: unknown source {source!r}; it is generated or official")
    search = Search(data_dir, cache_dir)
    if folder := search.first("./", "listops-1000/", holding=[*OFFICIAL_FILES.values()]):
        return Found(folder, "tables")
    raise search.not_found(
        f"{', '.join(OFFICIAL_FILES.values())} together",
        "listops",
        [],
        "Unpack the released archive there, or set DATA_DIR, or use source=generated, which follows the same law.",
    )


def _generate(law: Law, seed: int, sizes: Mapping[str, int], report: Report) -> dict[str, Split]:
    """Draws test, then validation, then train: a larger training split leaves the other two as they are."""
    order = ("test", "validation", "train")
    total = sum(sizes.values())
    tokens, lengths, labels, done = [], [], [], 0
    for batch in sample_distinct(law, seed, total):
        tokens.append(batch.tokens)
        lengths.append(np.diff(batch.offsets))
        labels.append(batch.values)
        done += len(batch.values)
        report(done, total)
    everything = Split(np.concatenate(tokens), _offsets(np.concatenate(lengths)), np.concatenate(labels))
    first = dict(zip(order, np.cumsum([0, *(sizes[name] for name in order)]), strict=False))
    return {name: _rows(everything, first[name], first[name] + sizes[name]) for name in order}


def _rows(split: Split, first: int, last: int) -> Split:
    start, stop = split.offsets[first], split.offsets[last]
    return Split(split.tokens[start:stop], split.offsets[first : last + 1] - start, split.labels[first:last])


def _read_official(files: Mapping[str, Path], sizes: Mapping[str, int], report: Report) -> dict[str, Split]:
    total = sum(path.stat().st_size for path in files.values())

    def report_from(start: int) -> Callable[[int], None]:
        return lambda read: report(start + read, total)

    splits, before = {}, 0
    for name, path in files.items():
        splits[name] = read_tsv(path, sizes[name], report_from(before))
        before += path.stat().st_size
    return splits


def read_tsv(path: Path, rows: int, report: Callable[[int], None] = lambda read: None) -> Split:
    """The first `rows` rows of a released file, every label checked against its expression's value.

    Raises:
        DataError: names file and line of the first row that is not an expression with its value, or the number of rows
            where there are too few.
    """
    tokens: list[np.ndarray] = []
    labels: list[int] = []
    checked, read = 0, 0
    with open(path, encoding="utf-8", errors="replace", newline="") as file:
        header = file.readline().rstrip("\r\n")
        if header != "Source\tTarget":
            raise DataError(f"{path}, line 1: the header must be Source<tab>Target, not {header[:80]!r}")
        for line in file:
            if len(labels) == rows:
                break
            read += len(line)
            sequence, label = _parse(path, len(labels) + 2, line)
            tokens.append(sequence)
            labels.append(label)
            if len(labels) - checked == _ROWS:
                _check(path, checked, tokens[checked:], labels[checked:])
                checked = len(labels)
                report(read)
    if len(labels) < rows:
        raise DataError(
            f"{path} ends after {len(labels):,} of {rows:,} rows; it is incomplete, or ask for fewer with task.examples"
        )
    if checked < rows:
        _check(path, checked, tokens[checked:], labels[checked:])
    return Split(np.concatenate(tokens), _offsets([len(sequence) for sequence in tokens]), np.array(labels, np.uint8))


def _parse(path: Path, line_number: int, line: str) -> tuple[np.ndarray, int]:
    where = f"{path}, line {line_number}"
    columns = line.rstrip("\r\n").split("\t")
    if len(columns) != 2:
        raise DataError(f"{where}: {len(columns)} columns; a row is an expression, a tab and its value")
    source, target = columns
    if not (len(target) == 1 and target in "0123456789"):
        raise DataError(f"{where}: the value {target[:20]!r} is not a digit 0 to 9")
    try:
        sequence = encode(source)
    except KeyError as error:
        raise DataError(
            f"{where}: unknown token {error.args[0][:20]!r}; allowed are {' '.join(VOCABULARY)} and ( )"
        ) from None
    step = np.where(sequence == CLOSE, -1, (sequence >= MIN).astype(np.int64))
    depth = np.cumsum(step)  # open operators after each token; 0 only at the end of a whole expression
    empty = (sequence[:-1] >= MIN) & (sequence[:-1] != CLOSE) & (sequence[1:] == CLOSE)
    if not len(sequence) or depth[-1] != 0 or (depth[:-1] < 1).any() or empty.any():
        raise DataError(
            f"{where}: not one whole expression; every operator needs arguments and its own ], and nothing may follow"
        )
    return sequence, int(target)


def _check(path: Path, first: int, tokens: list[np.ndarray], labels: list[int]) -> None:
    values = evaluate(np.concatenate(tokens), _offsets([len(sequence) for sequence in tokens]))
    wrong = np.flatnonzero(values != np.array(labels))
    if len(wrong):
        row = wrong[0]
        raise DataError(
            f"{path}, line {first + row + 2}: the value given is {labels[row]}, that of the expression {values[row]}"
        )


def _offsets(lengths) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def _truncated(split: Split, max_length: int) -> tuple[Split, int]:
    """`split` with its sequences cut at `max_length`, and how many were."""
    cut = split.lengths > max_length
    if not cut.any():
        return split, 0
    position = np.arange(len(split.tokens)) - np.repeat(split.offsets[:-1], split.lengths)
    kept = Split(split.tokens[position < max_length], _offsets(np.minimum(split.lengths, max_length)), split.labels)
    return kept, int(cut.sum())


def _task(splits: Mapping[str, Split], source: Literal["generated", "official"], max_length: int) -> Task:
    cut = {name: _truncated(split, max_length) for name, split in splits.items()}
    train, validation, test = (cut[name][0] for name in SPLITS)
    train_roots, test_roots = (split.tokens[split.offsets[:-1]] for split in (train, test))
    return Task(
        name="listops",
        version=VERSION,
        source=source,
        train=train,
        validation=validation,
        test=test,
        **SHAPE._asdict(),
        max_length=max_length,
        fingerprint="",
        baselines={
            "majority": baselines.majority(test.labels),
            "root_operator": baselines.best_constant(train_roots, train, test_roots, test),
            "bag_of_tokens": baselines.bag_of_tokens(train, test, SHAPE.vocab_size),
        },
        truncated_fraction=sum(count for _, count in cut.values()) / sum(map(len, splits.values())),
    )
