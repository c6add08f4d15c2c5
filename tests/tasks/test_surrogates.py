"""Stand-ins: labels worked out anew from the documented rule, and nothing to learn for whoever sees windows alone."""

import hashlib
import re
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from tasks import baselines, image, retrieval, surrogates, text
from tasks.errors import DataError
from tasks.surrogates import WINDOW
from tasks.task import Split

MODULES = {"text": text, "retrieval": retrieval, "image": image}
LENGTHS = {"text": 256, "retrieval": 128, "image": 256}
OWN: dict[str, dict] = {"text": {}, "retrieval": {"decode_literals": False}, "image": {"grey": "tf"}}
WRONG = {"text": 0.04, "retrieval": 0, "image": 0}  # labels that the rule does not give
# Of 100 examples of seed 0, by sha256.
DIGESTS = {"text": "89b59539619a6bb1", "retrieval": "386d75434b0cc60b", "image": "c145f5f5ba68e815"}
TINY = {"train": 40, "validation": 10, "test": 10}


def draw(name: str, count: int, seed: int) -> Split:
    return surrogates.DRAW[name](count, LENGTHS[name], np.random.default_rng(seed))


def load(tmp_path, name: str, source="surrogate", **changes):
    options = {"cache_dir": tmp_path, "data_dir": tmp_path / "nothing", "max_length": LENGTHS[name], "examples": TINY}
    return MODULES[name].load(source=source, **options | OWN[name] | changes)


@pytest.fixture(scope="module")
def drawn() -> dict[str, Split]:
    return {name: draw(name, 2000, seed=1) for name in MODULES}


# The rules, read from the documentation and written anew


def verdict(document: bytes) -> int:
    """Which verdict comes last."""
    return "-+".index(re.sub("[^-+]", "", document.decode())[-1])


def first_subject(document: bytes) -> str:
    """The subject whose passage comes first, by its first letter."""
    capital = re.search("[A-Z]", document.decode())
    assert capital is not None
    return "A" if capital[0] in "AB" else "Z"


def sector(pixels: np.ndarray) -> int:
    """Where the grey square lies as seen from the white one."""
    (y, x), (v, u) = (np.argwhere(pixels == value).mean(axis=0) for value in (255, 128))
    return 5 * int(v > y) + int(np.searchsorted([-6, -2, 2, 6], u - x))


def as_bytes(split: Split, sequence: int) -> bytes:
    return (split.sequence(sequence) - 1).astype(np.uint8).tobytes()


def answers(name: str, split: Split) -> list[int]:
    count = range(len(split))
    if name == "text":
        return [verdict(as_bytes(split, i)) for i in count]
    if name == "retrieval":
        first = [first_subject(as_bytes(split, i)) for i in range(2 * len(split))]
        return [int(first[2 * i] == first[2 * i + 1]) for i in count]
    return [sector(split.sequence(i).reshape(16, 16)) for i in count]


@pytest.mark.parametrize("name", MODULES)
def test_labels_follow_the_documented_rule_in_equal_numbers(drawn, name):
    labels = drawn[name].labels
    assert (answers(name, drawn[name]) != labels).sum() == WRONG[name] * len(labels)
    assert np.ptp(np.bincount(labels, minlength=MODULES[name].SHAPE.num_classes)) == 0
    assert np.abs(np.corrcoef(labels, np.arange(len(labels)))[0, 1]) < 0.1, "no order among the examples"


@pytest.mark.parametrize("name", MODULES)
def test_lengths_and_tokens_are_those_of_the_task(drawn, name):
    split, length = drawn[name], LENGTHS[name]
    assert split.lengths.max() == length
    assert split.lengths.min() == {"text": length // 2, "retrieval": length * 3 // 4, "image": length}[name]
    assert split.tokens.max() < MODULES[name].SHAPE.vocab_size
    assert split.paired == MODULES[name].SHAPE.paired
    assert name == "image" or split.tokens.min() > 0


# What there is to see in a window


def windows(tokens: np.ndarray) -> Counter:
    return Counter(row.tobytes() for row in np.lib.stride_tricks.sliding_window_view(tokens, WINDOW))


def marked(document: bytes) -> np.ndarray:
    """A text with its letters alike, so that only what carries the label remains."""
    alike = re.sub(r"[a-z ]", ".", document.decode())
    return np.frombuffer(re.sub("[YZ]", "Z", re.sub("[AB]", "A", alike)).encode(), np.uint8)


@pytest.mark.parametrize(("name", "exchanged"), [("text", "+-"), ("retrieval", "AZ")])
def test_exchanging_the_marks_of_a_text_turns_its_label_but_changes_no_window(drawn, name, exchanged):
    """So both labels show the same windows with the same probability."""
    one, other = (ord(mark) for mark in exchanged)
    split = drawn[name]
    for i in range(len(split.lengths)):
        tokens = marked(as_bytes(split, i))
        turned = np.where(tokens == one, other, np.where(tokens == other, one, tokens))
        assert windows(tokens) == windows(turned)
        assert (tokens == one).sum() == (tokens == other).sum() > 0
        if name == "text":
            assert verdict(turned.tobytes()) == 1 - verdict(tokens.tobytes())
        else:
            assert first_subject(tokens.tobytes()) != first_subject(turned.tobytes())


def test_all_images_have_the_same_windows(drawn):
    split = drawn["image"]
    expected = windows(split.sequence(0))
    assert all(windows(split.sequence(i)) == expected for i in range(len(split)))
    assert len({split.sequence(i).tobytes() for i in range(len(split))}) > 1500


@pytest.mark.parametrize("name", MODULES)
def test_shallow_baselines_touch_chance(drawn, name):
    train, test = draw(name, 2500, seed=0), drawn[name]
    chance = 1 / MODULES[name].SHAPE.num_classes
    error = (chance * (1 - chance) / len(test)) ** 0.5
    shallow: dict[str, Callable[[], float]] = {
        "bag": lambda: baselines.bag_of_tokens(train, test, MODULES[name].SHAPE.vocab_size),
        "windows": lambda: baselines.windows(train, test, WINDOW),
    }
    for baseline, accuracy in shallow.items():
        assert abs(accuracy() - chance) < 3 * error, baseline


# As a task


@pytest.mark.parametrize("name", MODULES)
def test_a_surrogate_says_that_it_is_one_and_needs_no_data(tmp_path, name):
    task = load(tmp_path, name)
    assert (task.name, task.source, task.truncated_fraction) == (name, "surrogate", 0)
    assert list(task.baselines) == ["majority", "bag_of_tokens", "windows_of_8"]
    assert [len(split) for split in (task.train, task.validation, task.test)] == [40, 10, 10]
    assert MODULES[name].locate("surrogate", data_dir="nowhere", cache_dir=tmp_path) is None
    with pytest.raises(DataError, match="surrogate"):
        load(tmp_path, name, source="surrogat")


@pytest.mark.parametrize("name", MODULES)
def test_a_split_is_the_same_whatever_the_size_of_the_others(tmp_path, name):
    first, second = load(tmp_path / "1", name), load(tmp_path / "2", name, examples=TINY | {"train": 90})
    for split in ("validation", "test"):
        for part in ("tokens", "offsets", "labels"):
            np.testing.assert_array_equal(*(getattr(getattr(task, split), part) for task in (first, second)))
    assert load(tmp_path / "3", name).fingerprint == first.fingerprint != second.fingerprint
    splits = [first.train, first.validation, first.test]
    seen = [split.sequence(i).tobytes() for split in splits for i in range(len(split.lengths))]
    assert len(set(seen)) == len(seen) or name == "image"


@pytest.mark.parametrize("name", MODULES)
def test_the_seed_decides_every_byte(name):
    """Another digest means other examples under the same seed: raise VERSION."""
    content = [
        hashlib.sha256(split.tokens.tobytes() + split.offsets.astype("<i8").tobytes() + split.labels.tobytes())
        for split in (draw(name, 100, seed) for seed in (0, 0, 1))
    ]
    first, again, another = (digest.hexdigest()[:16] for digest in content)
    assert first == again == DIGESTS[name] != another


@pytest.mark.parametrize(
    ("name", "length"), [("text", 159), ("retrieval", 111), ("image", 64), ("image", 200), ("image", 400)]
)
def test_no_room_for_what_is_far_apart_is_an_error(tmp_path, name, length):
    with pytest.raises(DataError, match=f"{name}: max_length={length}; a surrogate has"):
        load(tmp_path, name, max_length=length)


@pytest.mark.parametrize(("name", "length"), [("text", 160), ("retrieval", 112), ("image", 1024)])
def test_other_lengths_keep_the_rule(tmp_path, name, length):
    task = load(tmp_path, name, max_length=length)
    if name == "image":
        small = task.train.tokens.reshape(-1, 32, 32)
        np.testing.assert_array_equal(small, small[:, ::2, ::2].repeat(2, 1).repeat(2, 2))
        assert [sector(each[::2, ::2]) for each in small] == task.train.labels.tolist()
    else:
        assert (answers(name, task.train) != task.train.labels).sum() == round(WRONG[name] * len(task.train))
