"""ListOps against its published law, an evaluator of its own, and expressions written by the original program.

In tests/golden: `listops_length_pmf_501_1999.npy`, the exact probabilities of the accepted lengths, computed apart from
this code; `listops_official_sample.tsv`, 20 rows written by the original generator.
"""

import inspect
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf
from scipy.stats import chi2, chisquare  # type: ignore[import-untyped]

from tasks import baselines, listops
from tasks.errors import DataError
from tasks.listops_generator import (
    IDS,
    Expressions,
    Law,
    evaluate,
    length_probabilities,
    sample,
    sample_distinct,
    serialise,
)
from tasks.task import Split, Task

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
SHORT = {"min_length": 3, "max_length": 48, "max_depth": 4, "max_args": 5, "operator_probability": 0.25, "seed": 0}
WORDS = ["padding", *"0123456789", "[MIN", "[MAX", "[MED", "[SM", "]"]
SIZES = {"train": 1500, "validation": 200, "test": 300}


def interpret(ids) -> int:
    """Value of an encoded expression, by a stack and Python's own functions; shares nothing with the code tested."""
    meaning: dict[str, Callable] = {
        "[MIN": min,
        "[MAX": max,
        "[MED": lambda arguments: int(median(arguments)),
        "[SM": lambda arguments: sum(arguments) % 10,
    }
    stack: list[list] = [[]]
    for token in (WORDS[i] for i in ids):
        if token in meaning:
            stack.append([token])
        elif token == "]":
            operator, *arguments = stack.pop()
            stack[-1].append(meaning[operator](arguments))
        else:
            stack[-1].append(int(token))
    ((value,),) = stack
    return value


def collect(law: Law, count: int, seed: int = 0) -> Expressions:
    batches = []
    for batch in sample(law, seed):
        batches.append(batch)
        if sum(len(batch.values) for batch in batches) >= count:
            break
    tokens, offsets, values = zip(*batches, strict=True)
    lengths = np.concatenate([np.diff(offset) for offset in offsets])
    return Expressions(np.concatenate(tokens), np.concatenate([[0], np.cumsum(lengths)]), np.concatenate(values))


def load(cache_dir, source="generated", data_dir="nowhere", **changes) -> Task:
    return listops.load(**keywords(cache_dir) | {"source": source, "data_dir": data_dir} | changes)


def keywords(cache_dir) -> dict:
    return {"source": "generated", "cache_dir": str(cache_dir), "data_dir": "nowhere", "examples": SIZES, **SHORT}


def in_another_process(then: str, keywords: dict, **environment: str) -> str:
    """What a fresh interpreter prints that loads the task (`seconds` of CPU time) and runs `then`."""
    code = (
        "import json, sys, time; from tasks import listops; started = time.process_time(); "
        f"task = listops.load(**json.loads(sys.argv[1])); seconds = time.process_time() - started; {then}"
    )
    command = [sys.executable, "-c", code, json.dumps(keywords)]
    environment = {**os.environ, **environment}
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment, check=True).stdout


def configured() -> dict[str, Any]:
    """The keywords of `load` in the configuration; the folders come from elsewhere."""
    config: Any = OmegaConf.to_container(OmegaConf.load(ROOT / "configs" / "task" / "listops.yaml"))
    assert config.pop("_target_") == "tasks.listops.load"
    return config


def rows(split: Split) -> list[bytes]:
    return [split.sequence(i).tobytes() for i in range(len(split))]


@pytest.fixture(scope="module")
def full_law() -> Expressions:
    return collect(Law(), 6000)


@pytest.fixture(scope="module")
def short(tmp_path_factory) -> Task:
    return load(tmp_path_factory.mktemp("cache"))


# The law


def test_lengths_follow_the_exact_law(full_law):
    """Chi-square over 30 bins, against probabilities that this code did not compute."""
    exact = np.load(GOLDEN / "listops_length_pmf_501_1999.npy")
    lengths = np.diff(full_law.offsets)
    assert lengths.min() > 500
    assert lengths.max() < 2000
    bins = np.minimum(np.arange(501, 2000) * 30 // 2500, 29)  # finer where the lengths are many
    expected = np.bincount(bins, exact)
    observed = np.bincount(bins[lengths - 501], minlength=len(expected))
    wanted = expected > 0
    assert chisquare(observed[wanted], expected[wanted] * len(lengths)).pvalue > 1e-3


def test_the_computed_law_is_the_exact_one():
    law = length_probabilities(Law())
    assert law[501:].sum() == pytest.approx(0.0827553, abs=1e-7)
    assert law[1] == pytest.approx(0.75)
    np.testing.assert_allclose(law[501:] / law[501:].sum(), np.load(GOLDEN / "listops_length_pmf_501_1999.npy"))


@pytest.mark.parametrize(
    "law", [Law(7, 48, 4, 5, 0.25), Law(15, 128, 10, 10, 0.25), Law(3, 40, 3, 8, 0.4), Law(1, 30, 10, 2, 0.3)]
)
def test_short_forms_follow_their_law_too(law):
    exact = length_probabilities(law)
    exact[: law.min_length + 1] = 0
    exact /= exact.sum()
    lengths = np.diff(collect(law, 10_000).offsets)
    edges = np.searchsorted(np.cumsum(exact), np.linspace(0, 1, 13)[1:-1])
    expected = np.bincount(np.digitize(np.arange(law.max_length), edges), exact) * len(lengths)
    observed = np.bincount(np.digitize(lengths, edges), minlength=len(expected))
    likely = expected > 5
    assert observed[~likely].sum() <= 20
    assert chisquare(observed[likely], expected[likely] * observed[likely].sum() / expected[likely].sum()).pvalue > 1e-3


def test_labels_match_those_of_the_original_generator(full_law):
    """Two-sample chi-square against the histogram of 20,000 expressions drawn by the original program."""
    original = np.array([3368, 1863, 1453, 1642, 1777, 1765, 1544, 1492, 1705, 3391])
    ours = np.bincount(full_law.values, minlength=10)
    a, b = np.sqrt(ours.sum() / original.sum()), np.sqrt(original.sum() / ours.sum())
    statistic = ((a * original - b * ours) ** 2 / (original + ours)).sum()
    assert chi2.sf(statistic, 9) > 1e-3


def test_operators_digits_and_arity_are_uniform_where_length_does_not_select():
    """Bounds so wide that nothing is rejected but lone digits and the rare tree over 4,000 tokens."""
    batch = collect(Law(1, 4000, 4, 10, 0.25), 3000)
    counts = np.bincount(batch.tokens, minlength=16)
    assert counts[0] == 0
    assert chisquare(counts[1:11]).pvalue > 1e-3
    assert chisquare(counts[11:15]).pvalue > 1e-3
    roots = [arity_of_root(batch.tokens[a:b]) for a, b in itertools.pairwise(batch.offsets)]
    observed = np.bincount(roots, minlength=11)
    assert observed[:2].sum() == 0
    assert chisquare(observed[2:]).pvalue > 1e-3
    assert deepest(batch) == 3, "the fourth level is always digits"


def arity_of_root(tokens: np.ndarray) -> int:
    depth = np.cumsum(np.where(tokens == 15, -1, (tokens > 10).astype(int)))
    starts = np.concatenate([[0], depth[:-1]]) + (tokens > 10) * (tokens < 15)
    return int(((starts == 2) & (tokens > 10) & (tokens < 15)).sum() + ((depth == 1) & (tokens <= 10)).sum())


def deepest(batch: Expressions) -> int:
    return int(np.cumsum(np.where(batch.tokens == 15, -1, (batch.tokens > 10).astype(int))).max())


def test_full_expressions_nest_nine_operators(full_law):
    """The original generator's samples all do: such lengths are hardly reached with fewer."""
    assert deepest(full_law) == 9


def test_the_root_operator_alone_scores_about_36_percent(full_law):
    """The figure published transformers sit on."""
    half = len(full_law.values) // 2
    roots = full_law.tokens[full_law.offsets[:-1]]
    train = Split(full_law.tokens, full_law.offsets[: half + 1], full_law.values[:half])
    test = Split(full_law.tokens, full_law.offsets[half:], full_law.values[half:])
    accuracy = baselines.best_constant(roots[:half], train, roots[half:], test)
    assert abs(accuracy - 0.363) < 4 * np.sqrt(0.363 * 0.637 / (len(roots) - half))


# The value and the written form


def test_every_value_agrees_with_an_interpreter(full_law, short):
    for a, b, value in list(zip(full_law.offsets, full_law.offsets[1:], full_law.values, strict=False))[:400]:
        assert interpret(full_law.tokens[a:b]) == value
    for split in (short.train, short.validation, short.test):
        assert [interpret(split.sequence(i)) for i in range(len(split))] == split.labels.tolist()


def test_all_expressions_of_two_arguments():
    every = [[operator, a, b, 15] for operator in range(11, 15) for a in range(1, 11) for b in range(1, 11)]
    values = evaluate(np.array(every, np.uint8).reshape(-1), np.arange(401) * 4)
    assert values.tolist() == [interpret(tokens) for tokens in every]


def test_ids_keep_the_written_order():
    """A trained model reads these ids; changing one is a new version of the task."""
    assert {word: WORDS.index(word) for word in WORDS[1:]} == IDS


def test_brackets_survive_the_encoding():
    """Long Range Arena issues 20 and 6: an earlier tokenizer lost them."""
    text = "( ( ( ( ( ( [MAX 4 ) 3 ) ( ( ( [MIN 2 ) 3 ) ] ) ) 1 ) 0 ) ] )"
    assert len(text.split()) == 28
    ids = listops.encode(text)
    assert " ".join(WORDS[i] for i in ids) == "[MAX 4 3 [MIN 2 3 ] 1 0 ]"
    assert value_of(text) == 4
    apart, together = "[MAX 1 [MIN 2 0 ] 9 ]", "[MAX 1 [MIN 2 0 9 ] ]"
    assert listops.encode(apart).tolist() != listops.encode(together).tolist()
    assert (value_of(apart), value_of(together)) == (9, 1)


def value_of(text: str) -> int:
    ids = listops.encode(text)
    return int(evaluate(ids, np.array([0, len(ids)]))[0])


def test_the_median_is_cut_to_an_integer():
    assert value_of("[MED 8 1 ]") == 4
    assert value_of("[MED 9 2 5 ]") == 5
    assert value_of("[MED 0 [SM 9 9 ] 1 9 ]") == 4


def test_the_original_programs_rows_are_read_evaluated_and_written_back():
    lines = (GOLDEN / "listops_official_sample.tsv").read_text().splitlines()[1:]
    assert len(lines) == 20
    for line in lines:
        text, value = line.split("\t")
        ids = listops.encode(text)
        assert interpret(ids) == value_of(text) == int(value)
        assert len(text.split()) == 3 * len(ids) - 2
        assert serialise(ids) == text


# The task


def test_the_task_says_what_it_is(short):
    assert (short.name, short.source, short.vocab_size, short.num_classes) == ("listops", "generated", 16, 10)
    assert (short.max_length, short.paired, short.truncated_fraction) == (48, False, 0.0)
    assert {name: len(getattr(short, name)) for name in SIZES} == SIZES
    assert set(short.baselines) == {"majority", "root_operator", "bag_of_tokens"}
    assert short.baselines["majority"] == np.bincount(short.test.labels).max() / 300
    assert short.baselines["majority"] < short.baselines["root_operator"] < 0.5


def test_no_expression_comes_twice(short):
    every = [row for name in SIZES for row in rows(getattr(short, name))]
    assert len(set(every)) == len(every) == 2000
    drawn = rows(Split(*collect(Law(3, 48, 4, 5), 2000)))[:2000]
    assert len(set(drawn)) < len(drawn), "this law repeats itself, so the check above says something"


def test_a_larger_training_split_leaves_the_others_alone(short, tmp_path):
    larger = load(tmp_path, examples=SIZES | {"train": 3000})
    assert rows(larger.test) == rows(short.test)
    assert rows(larger.validation) == rows(short.validation)
    assert rows(larger.train)[:1500] == rows(short.train)


def test_the_seed_decides(short, tmp_path):
    other = load(tmp_path, seed=1)
    assert other.fingerprint != short.fingerprint
    assert rows(other.test) != rows(short.test)


def test_the_same_bytes_on_every_machine(short, tmp_path):
    """In another process with another string hash, and equal to what was written down once."""
    hash_seed = "0" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    printed = in_another_process("print(task.fingerprint)", keywords(tmp_path), PYTHONHASHSEED=hash_seed)
    assert printed.strip() == short.fingerprint == "49bf5fdd7cafb1f2ba230ecbd111c229"


def test_a_space_too_small_or_too_rare_is_an_error():
    tiny = Law(3, 5, 2, 2)
    assert sum(len(batch.values) for batch in sample_distinct(tiny, 0, 400)) == 400, "all that there are"
    with pytest.raises(DataError, match="gave 400 distinct expressions of the 401 asked for"):
        list(sample_distinct(tiny, 0, 401))
    with pytest.raises(DataError, match="raise max_depth"):
        list(sample_distinct(Law(500, 2000, 3, 5), 0, 10))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"min_length": 47}, "no length lies strictly between"),
        ({"min_length": 0}, "min_length must be 1 or more"),
        ({"max_args": 1}, "must be 2 or more"),
        ({"operator_probability": 1.0}, "between 0 and 1"),
        ({"examples": {"train": 5, "test": 5}}, "train, validation, test"),
        ({"examples": SIZES | {"test": 0}}, "1 or more"),
        ({"source": "packaged"}, "generated or official"),
    ],
)
def test_impossible_wishes_are_refused(tmp_path, changes, message):
    with pytest.raises(DataError, match=message):
        load(tmp_path, **changes)


def test_the_configuration_holds_the_released_task():
    values = configured()
    assert set(values) == set(inspect.signature(listops.load).parameters)
    assert Law(*(values[name] for name in Law.__dataclass_fields__)) == Law()
    assert values["examples"] == {"train": 96_000, "validation": 2_000, "test": 2_000}


# The released files


def write_release(folder: Path, task: Task, end: str = "\r\n") -> None:
    folder.mkdir(parents=True)
    for name, file in listops.OFFICIAL_FILES.items():
        split = getattr(task, name)
        lines = [f"{serialise(split.sequence(i))}\t{split.labels[i]}" for i in range(len(split))]
        (folder / file).write_bytes(end.join(["Source\tTarget", *lines, ""]).encode())


@pytest.mark.parametrize(
    ("folder", "end"), [("", "\n"), ("lra_release", "\r\n"), ("lra_release/lra_release/listops-1000", "\r\n")]
)
def test_released_files_are_found_and_give_the_same_arrays(short, tmp_path, folder, end):
    write_release(tmp_path / "x" / folder, short, end)
    official = load(tmp_path / "cache", "official", tmp_path / "x")
    assert official.source == "official"
    assert official.fingerprint != short.fingerprint
    assert official.baselines == short.baselines
    for name in SIZES:
        assert rows(getattr(official, name)) == rows(getattr(short, name))
        assert getattr(official, name).labels.tolist() == getattr(short, name).labels.tolist()


def test_missing_files_list_every_place_tried(tmp_path):
    with pytest.raises(DataError) as error:
        load(tmp_path, "official", tmp_path / "x")
    for place in ("x", "x/lra_release", "x/lra_release/lra_release"):
        assert f"  {tmp_path / place}\n" in str(error.value)
    assert "Looked for basic_train.tsv, listops-1000/basic_train.tsv in\n" in str(error.value)


def test_long_rows_are_cut_and_counted(short, tmp_path):
    write_release(tmp_path / "x", short)
    cut = load(tmp_path, "official", tmp_path / "x", max_length=20)
    longer = sum((getattr(short, name).lengths > 20).sum() for name in SIZES)
    assert cut.truncated_fraction == longer / 2000 > 0
    assert rows(cut.train) == [row[:20] for row in rows(short.train)]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (b"( ( [MAX 1 ) ] )\t1\textra", "3 columns"),
        (b"[MAX 1 2 ]", "1 columns"),
        (b"[MAX 1 2 ]\t12", "'12' is not a digit"),
        (b"[MAX 1 2 ]\t", "'' is not a digit"),
        (b"[MAX 1 10 ]\t1", r"unknown token '10'; allowed are 0 1 .*\[SM \] and \( \)"),
        (b"[FIRST 1 2 ]\t1", "unknown token '\\[FIRST'"),
        (b"[MAX 1 \xff ]\t1", "unknown token"),
        (b"[MAX 1 [MIN 2 3 ]\t1", "not one whole expression"),
        (b"[MAX 1 2 ] ]\t2", "not one whole expression"),
        (b"[MAX 1 2 ] [MAX 1 2 ]\t2", "not one whole expression"),
        (b"1 2\t2", "not one whole expression"),
        (b"[MAX ]\t2", "not one whole expression"),
        (b"\t2", "not one whole expression"),
        (b"[MAX 1 [MIN 2 0 ] 9 ]\t1", "the value given is 1, that of the expression 9"),
    ],
)
def test_a_bad_row_is_named_by_file_and_line(tmp_path, row, message):
    path = tmp_path / "basic_val.tsv"
    path.write_bytes(b"Source\tTarget\r\n[MAX 1 2 ]\t2\r\n" + row + b"\r\n[MIN 1 2 ]\t1\r\n")
    with pytest.raises(DataError, match=r"basic_val\.tsv, line 3: .*" + message):
        listops.read_tsv(path, 3)


def test_a_strange_header_and_missing_rows_are_errors(tmp_path):
    path = tmp_path / "basic_val.tsv"
    path.write_bytes(b"<html>")
    with pytest.raises(DataError, match=r"line 1: the header must be Source<tab>Target, not '<html>'"):
        listops.read_tsv(path, 1)
    path.write_bytes(b"Source\tTarget\r\n[MAX 1 2 ]\t2\r\n")
    with pytest.raises(DataError, match="ends after 1 of 2 rows"):
        listops.read_tsv(path, 2)
    assert len(listops.read_tsv(path, 1)) == 1


@pytest.mark.parametrize(("law", "count"), [(Law(3, 48, 4, 5), 10_000), (Law(), 300)])
def test_the_labels_of_a_released_file_agree_with_an_interpreter(tmp_path, law, count):
    """Every row, from the encoded ids alone; the file is written by this test, as the original program writes."""
    drawn = collect(law, count)
    lines = [
        f"{serialise(drawn.tokens[first:last])}\t{value}"
        for first, last, value in zip(drawn.offsets, drawn.offsets[1:], drawn.values, strict=False)
    ]
    path = tmp_path / "basic_train.tsv"
    path.write_bytes("\r\n".join(["Source\tTarget", *lines, ""]).encode())
    split = listops.read_tsv(path, count)
    assert len(split) == count
    assert [interpret(split.sequence(i).tolist()) for i in range(count)] == split.labels.tolist()
    assert split.labels.tolist() == drawn.values[:count].tolist()


# The full set


@pytest.mark.slow
def test_the_full_set(tmp_path):
    """96,000 + 2,000 + 2,000 in under a CPU minute, after the exact law, every label right. Takes about two minutes."""
    released = configured() | {"cache_dir": str(tmp_path), "data_dir": "nowhere"}
    assert float(in_another_process("print(seconds)", released)) < 60
    task = listops.load(**released)
    lengths = np.concatenate([getattr(task, name).lengths for name in SIZES])
    assert len(lengths) == 100_000
    exact = np.load(GOLDEN / "listops_length_pmf_501_1999.npy")
    bins = np.arange(1499) // 10
    observed, expected = np.bincount(bins[lengths - 501]), np.bincount(bins, exact) * len(lengths)
    assert chisquare(observed, expected).pvalue > 1e-3
    assert abs(lengths.mean() - 1035.02) < 4 * 393.81 / np.sqrt(len(lengths))
    for name in SIZES:
        split = getattr(task, name)
        assert all(interpret(split.sequence(i).tolist()) == split.labels[i] for i in range(len(split)))
