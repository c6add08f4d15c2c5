"""AAN paper pairs, byte by byte: does one cite the other?

Source `official` is one of: the released `new_aan_pairs.{train,eval,test}.tsv`; the released archive that holds them,
read without unpacking it; or `new_aan_pairs.*.only_ids.tsv` joined to a folder of papers `<id>.txt`.

The released text columns are Python byte-string literals (`b'...'` with `\\n` and `\\xNN` written out), and every
published score is of models that read the bytes of these literals as they stand. So that is the default. With
`decode_literals` the model reads the papers' own bytes; such scores compare with no published one.

Source `surrogate` is no papers at all but what `tasks.surrogates` makes.

Radev et al. 2013, https://doi.org/10.1007/s10579-012-9211-2; Tay et al. 2020, https://arxiv.org/abs/2011.04006.
"""

import ast
import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Literal

from tasks.archives import Found, Search, read_members
from tasks.byte_text import VOCAB_SIZE, ByteTexts, as_text
from tasks.cache import SPLITS, Report, cached
from tasks.download import KnownFile
from tasks.errors import DataError
from tasks.splits import require, sizes_of, task_of
from tasks.surrogates import surrogate
from tasks.task import Shape, Split, Task

VERSION = 1
SHAPE = Shape(VOCAB_SIZE, num_classes=2, paired=True)
LABELS = ("not cited", "cited")
FULL_SIZES = {"train": 147_086, "validation": 18_090, "test": 17_437}
_MIRROR = "https://huggingface.co/datasets/OpenNLPLab/lra/resolve/6cb133c44f406da743661488df9e977b87d98775/data/aan/"
_NAMES = {"train": "train", "validation": "eval", "test": "test"}  # in the release, eval is the validation split
FILES = tuple(KnownFile(f"new_aan_pairs.{name}.tsv", f"{_MIRROR}new_aan_pairs.{name}.tsv") for name in _NAMES.values())
RELEASE = KnownFile("lra_release.gz", "https://storage.googleapis.com/long-range-arena/lra_release.gz")

_MEMBER = re.compile(r"(?:^|/)new_aan_pairs\.(train|eval|test)\.tsv$")
_IDENTIFIER = re.compile(rb"[\w-][\w.-]*")
_SPLITS = {name: split for split, name in _NAMES.items()}
_FOLDERS = ("./", "tsv_data/", "aan/")

show = as_text


def load(
    *,
    source: Literal["official", "surrogate"],
    cache_dir: str | Path,
    data_dir: str | Path,
    max_length: int,
    decode_literals: bool,
    examples: Mapping[str, int | None],
) -> Task:
    """The AAN pairs with their baselines, from the cache where they have been built before.

    Args:
        source: `official` or `surrogate`.
        cache_dir: where encoded data is kept.
        data_dir: where raw data is looked for.
        max_length: each paper is cut at this many bytes.
        decode_literals: read the papers' own bytes in place of the released literals; official ones only.
        examples: size of each split, `train`, `validation` and `test`; null for all, else the first rows.

    Raises:
        DataError: missing, incomplete or malformed data.
    """
    found = locate(source, data_dir=data_dir, cache_dir=cache_dir)
    if found is None:
        return surrogate("retrieval", SHAPE, cache_dir=cache_dir, max_length=max_length, examples=examples)
    sizes = sizes_of("retrieval", examples, FULL_SIZES)
    files, papers = [found.path], None
    if found.kind != "archive":
        files = [found.path / name for name in _tables(found.kind)]
    if found.kind == "ids":
        papers = Papers(_papers_folder(data_dir, cache_dir, found.path), max_length, decode_literals)
        files.append(papers.folder)
    return cached(
        lambda report: _task(found, papers, sizes, max_length, decode_literals, report),
        cache_dir=cache_dir,
        name="retrieval",
        version=VERSION,
        source=source,
        parameters={"max_length": max_length, "decode_literals": decode_literals, "examples": sizes},
        files=files,
    )


def locate(source: str, *, data_dir: str | Path, cache_dir: str | Path) -> Found | None:
    """Where the raw data lies, None for a surrogate; raises NotFound with every path tried and how to get it."""
    if source == "surrogate":
        return None
    if source != "official":
        raise DataError(f"retrieval: unknown source {source!r}; it is official or surrogate")
    search = Search(data_dir, cache_dir)
    if folder := search.first(*_FOLDERS, holding=_tables("tables")):
        return Found(folder, "tables")
    if archive := search.first("lra_release.gz", "lra_release.tar.gz", "lra_release.tar"):
        return Found(archive, "archive")
    if folder := search.first(*_FOLDERS, holding=_tables("ids")):
        return Found(folder, "ids")
    some = search.first(*(folder + name for folder in _FOLDERS for name in _tables("tables")))
    note = [f"{some} is there, but the three tables belong together."] if some else []
    raise search.not_found(
        "AAN pairs (source=official)",
        "retrieval",
        FILES,
        f"Or {RELEASE}; it has 7.7 GB, is read without unpacking it, and its address is reported closed.",
        *note,
    )


class Papers:
    """A folder of papers, one `<id>.txt` each, read once and written as the released literals are.

    Attributes:
        missing: names of the files that pairs asked for and that are not there.
    """

    def __init__(self, folder: Path, max_length: int, decode_literals: bool) -> None:
        self.folder = folder
        self.missing: set[str] = set()
        self._kept = max_length + 1  # one byte more, so that a cut paper still counts as one
        self._decode_literals = decode_literals
        self._papers: dict[str, bytes | None] = {}

    def __getitem__(self, identifier: str) -> bytes | None:
        if identifier not in self._papers:
            self._papers[identifier] = self._load(identifier)
        return self._papers[identifier]

    def _load(self, identifier: str) -> bytes | None:
        name = identifier.removesuffix(".txt") + ".txt"
        try:
            content = (self.folder / name).read_bytes()
        except FileNotFoundError:
            self.missing.add(name)
            return None
        return (content if self._decode_literals else repr(content).encode())[: self._kept]


def read_pairs(
    name: str,
    lines: Iterable[bytes],
    rows: int,
    *,
    max_length: int,
    decode_literals: bool = False,
    papers: Papers | None = None,
    report: Callable[[int], None] = lambda read: None,
) -> tuple[Split, int]:
    """The first `rows` rows of a table and the number of papers that were cut.

    Rows are `label id1 id2 text1 text2` between tabs, without a header; with `papers` they are `label id1 id2`, and
    pairs with a paper that is not there are left out.

    Raises:
        DataError: names `name` and the line that is no such row, or the number of rows where there are too few.
    """
    texts, labels, read = ByteTexts(max_length), [], 0
    for line in itertools.islice(lines, rows):
        read += 1
        where = f"{name}, line {read}"
        columns = line.rstrip(b"\r\n").split(b"\t") if papers is None else line.split()
        if len(columns) != (5 if papers is None else 3):
            row = "label, id1, id2" if papers else "label, id1, id2, text1, text2"
            raise DataError(f"{where}: {len(columns)} columns; a row is {row}")
        label = _label(where, columns[0])
        first, second = _joined(where, columns, papers) if papers else _texts(where, columns, decode_literals)
        if first is not None and second is not None:
            labels.append(label)
            texts.add(first)
            texts.add(second)
        report(read)
    require(read, rows, name)
    if not labels:
        raise DataError(f"{name}: not one pair has both its papers in {papers.folder if papers else name}")
    return texts.split(labels, paired=True), texts.truncated


def _label(where: str, column: bytes) -> int:
    try:
        label = float(column)  # the release writes 0.0 and 1.0
    except ValueError:
        label = -1
    if label not in (0, 1):
        raise DataError(f"{where}: the label {column[:20]!r} is neither 0 nor 1")
    return int(label)


def _texts(where: str, columns: list[bytes], decode_literals: bool) -> list[bytes]:
    if not decode_literals:
        return columns[3:]
    try:
        pair = [ast.literal_eval(text.decode("ascii")) for text in columns[3:]]
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise DataError(f"{where}: a text is no byte-string literal b'...': {error}") from None
    if not all(isinstance(text, bytes) for text in pair):
        raise DataError(f"{where}: a text is no byte-string literal b'...'")
    return pair


def _joined(where: str, columns: list[bytes], papers: Papers) -> list[bytes | None]:
    for identifier in columns[1:]:
        if not _IDENTIFIER.fullmatch(identifier):
            raise DataError(f"{where}: {identifier[:40]!r} is no paper's id")
    return [papers[identifier.decode()] for identifier in columns[1:]]


def _papers_folder(data_dir: str | Path, cache_dir: str | Path, table: Path) -> Path:
    search = Search(data_dir, cache_dir)
    folder = search.first("papers_text/", "aan/papers_text/", "papers/", "aan/papers/")
    if folder is None:
        raise search.not_found(f"folder of papers to join {table}/new_aan_pairs.*.only_ids.tsv to", "retrieval", FILES)
    return folder


def _tables(kind: str) -> list[str]:
    """Names of the tables of training, validation and test pairs."""
    return [f"new_aan_pairs.{name}{'.only_ids' if kind == 'ids' else ''}.tsv" for name in _NAMES.values()]


def _task(
    found: Found,
    papers: Papers | None,
    sizes: Mapping[str, int],
    max_length: int,
    decode_literals: bool,
    report: Report,
) -> Task:
    splits: dict[str, Split] = {}
    truncated, total = 0, sum(sizes.values())

    def read(split: str, where: str, lines: IO[bytes]) -> None:
        nonlocal truncated
        before = sum(sizes[done] for done in splits)
        splits[split], cut = read_pairs(
            where,
            lines,
            sizes[split],
            max_length=max_length,
            decode_literals=decode_literals,
            papers=papers,
            report=lambda rows: report(before + rows, total),
        )
        truncated += cut

    def read_member(name: str, lines: IO[bytes]) -> bool:
        split = _SPLITS[_MEMBER.search(name)[1]]  # type: ignore[index]
        read(split, f"{found.path}, {name}", lines)
        return len(splits) == len(SPLITS)  # what follows in the released archive is a million pictures

    if found.kind == "archive":
        read_members(found, _MEMBER, read_member, [RELEASE])
    else:
        for split, name in zip(_NAMES, _tables(found.kind), strict=True):
            with open(found.path / name, "rb") as lines:
                read(split, str(found.path / name), lines)
    if missing := set(SPLITS) - set(splits):
        raise DataError(f"{found.path} lacks new_aan_pairs.{_NAMES[missing.pop()]}.tsv")
    return task_of(
        splits,
        name="retrieval",
        version=VERSION,
        source="official",
        shape=SHAPE,
        max_length=max_length,
        truncated=truncated,
        skipped_files=sorted(papers.missing) if papers else (),
    )
