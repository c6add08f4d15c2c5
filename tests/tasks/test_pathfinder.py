"""Pathfinder: released folders as they are, damaged files and all, in the official splits; generated sets that grow."""

import inspect
import io
import os
import pickle
import shutil
from hashlib import md5
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf
from PIL import Image

from tasks import pathfinder
from tasks.archives import NotFound
from tasks.errors import DataError
from tasks.pathfinder import marker_position, read_image, read_metadata
from tasks.pathfinder_generator import generate, pathfinder_parameters
from tasks.task import Split, Task

ROOT = Path(__file__).parents[2]
SET = "pathfinder32/curv_contour_length_14"
SHARDS, ROWS = (10, 2, 0), 10  # 30 images: official slices of 24, 3 and 3
BAD = {"imgs/0/sample_3.png": "empty", "imgs/2/sample_5.png": "HTML", "imgs/10/sample_0.png": "truncated"}
SIZES: dict[str, int | None] = {"train": 21, "validation": 3, "test": 3}
TINY: dict[str, int | None] = {"train": 120, "validation": 30, "test": 50}
NAMES = ("train", "validation", "test")


@pytest.fixture(autouse=True)
def _no_other_places(monkeypatch, tmp_path):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "nowhere"))


@pytest.fixture(autouse=True)
def _one_core(monkeypatch):
    """Starting processes takes longer than the few images made here."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0})


def load(tmp_path, **changes) -> Task:
    keywords: dict[str, Any] = {"source": "official", "size": 32, "contour_length": 14, "parameters": "documented"}
    keywords |= {"max_length": 1024, "examples": SIZES, "seed": 0}
    return pathfinder.load(**{"cache_dir": tmp_path / "cache", "data_dir": tmp_path / "data"} | keywords | changes)


def generated(tmp_path, **changes) -> Task:
    return load(tmp_path, **{"source": "generated", "contour_length": 6, "examples": TINY} | changes)


def pixels(split: Split) -> np.ndarray:
    return np.stack([split.sequence(i) for i in range(len(split))])


# A small release


def picture(shard: int, number: int) -> np.ndarray:
    return np.random.default_rng([shard, number]).integers(0, 256, (32, 32), dtype=np.uint8)


def label(shard: int, number: int) -> int:
    return (shard + number) // 3 % 2


def png(image: np.ndarray) -> bytes:
    content = io.BytesIO()
    Image.fromarray(image).save(content, "PNG")
    return content.getvalue()


def lines(shard: int, length: int = 14) -> list[str]:
    return [f"imgs/{shard} sample_{k}.png {k} {label(shard, k)} 1.0 {length} 4 2 0.5 1 1" for k in range(ROWS)]


def write_release(folder: Path) -> Path:
    """Text metadata for two shards and a real array for one; one image is empty, one an error page, one cut short."""
    (folder / "metadata").mkdir(parents=True)
    for shard in SHARDS:
        (folder / f"imgs/{shard}").mkdir(parents=True)
        for number in range(ROWS):
            content = png(picture(shard, number))
            kind = BAD.get(f"imgs/{shard}/sample_{number}.png")
            damaged = {"empty": b"", "HTML": b"<html>404 Not Found</html>", "truncated": content[: len(content) // 2]}
            (folder / f"imgs/{shard}/sample_{number}.png").write_bytes(damaged[kind] if kind else content)
        (folder / f"metadata/{shard}.npy").write_text("".join(f"{line}\n" for line in lines(shard)))
    np.save(folder / "metadata/2.npy", np.array([line.split() for line in lines(2)]))
    (folder / "metadata/combined.npy").write_text("no shard of its own\n")
    return folder


def official_order() -> list[tuple[int, int]]:
    """(shard, number) in the order of the prepared set; keys count lines from 1."""
    everything = [(shard, number) for shard in SHARDS for number in range(ROWS)]
    keys = {(s, k): f"hardimgs/{s}_sample_{k}.png_{k + 1}" for s, k in everything}
    return sorted(everything, key=lambda each: int(md5(keys[each].encode()).hexdigest(), 16))


def usable(some: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [(s, k) for s, k in some if f"imgs/{s}/sample_{k}.png" not in BAD]


@pytest.fixture
def release(tmp_path) -> Path:
    return write_release(tmp_path / "data" / SET)


def sizes_without_the_bad() -> dict[str, int | None]:
    order = official_order()
    return {name: len(usable(part)) for name, part in zip(NAMES, (order[:24], order[24:27], order[27:]), strict=True)}


def test_the_splits_are_the_official_ones_with_damaged_files_left_out_after_slicing(tmp_path, release):
    order = official_order()
    task = load(tmp_path, examples=sizes_without_the_bad())
    for name, part in zip(NAMES, (order[:24], order[24:27], order[27:]), strict=True):
        split = getattr(task, name)
        expected = usable(part)
        np.testing.assert_array_equal(pixels(split), np.stack([picture(*each).reshape(-1) for each in expected]))
        assert split.labels.tolist() == [label(*each) for each in expected]
    assert sum(map(len, (task.train, task.validation, task.test))) == 27
    assert sorted(task.skipped_files) == sorted(BAD)
    assert pathfinder.FULL_SIZES == {"train": 160_000, "validation": 20_000, "test": 20_000}
    assert load(tmp_path, examples=sizes_without_the_bad()).skipped_files == task.skipped_files, "from the cache too"


def test_all_there_are_means_the_slices_less_the_damaged(tmp_path, release, monkeypatch):
    with pytest.raises(DataError, match="30 of 200,000 examples are there; it is incomplete"):
        load(tmp_path, examples=dict.fromkeys(NAMES))
    monkeypatch.setattr(pathfinder, "FULL_SIZES", {"train": 24, "validation": 3, "test": 3})
    task = load(tmp_path, examples=dict.fromkeys(NAMES))
    assert {name: len(getattr(task, name)) for name in NAMES} == sizes_without_the_bad()


def test_fewer_are_the_first_and_more_than_there_are_are_refused(tmp_path, release):
    few = load(tmp_path, examples={"train": 5, "validation": 1, "test": 1})
    assert few.train.labels.tolist() == [label(*each) for each in usable(official_order()[:24])[:5]]
    with pytest.raises(DataError, match=r"train images: 2\d of 24 examples are there"):
        load(tmp_path, examples=SIZES | {"train": 24})


def test_the_task_says_what_it_is(tmp_path, release):
    task = load(tmp_path, examples=sizes_without_the_bad())
    assert (task.name, task.source, task.shape, task.max_length) == ("pathfinder", "official", (256, 2, False), 1024)
    assert set(task.baselines) == {"majority", "bag_of_tokens"}
    assert task.train.tokens.dtype == np.uint8
    assert task.truncated_fraction == 0
    cut = load(tmp_path, examples=sizes_without_the_bad(), max_length=100)
    assert cut.truncated_fraction == 1
    np.testing.assert_array_equal(pixels(cut.train), pixels(task.train)[:, :100])


def test_shards_are_read_in_the_order_of_their_numbers(release):
    assert [row.file.split("/")[1] for row in pathfinder._rows(release, 14)[::ROWS]] == ["0", "2", "10"]


def test_text_and_real_arrays_say_the_same(tmp_path):
    text, table, column = (tmp_path / f"{name}.npy" for name in (0, 1, 2))
    text.write_text("".join(f"{line}\r\n" for line in lines(0)))
    np.save(table, np.array([line.split() for line in lines(0)]))
    np.save(column, np.array(lines(0), "S"))
    rows = read_metadata(text, 14)
    assert rows == read_metadata(table, 14) == read_metadata(column, 14)
    assert rows[4] == ("imgs/0/sample_4.png", label(0, 4), "imgs/0_sample_4.png_5")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({" 14 4": ""}, "line 4: 9 columns; a row has 11"),
        ({"imgs/0": "../../x"}, r"line 4: '../../x', 'sample_3.png' is no imgs/<shard>"),
        ({"sample_3": "../sample_3"}, "is no sample_<number>.png|no sample_<number>.png"),
        ({f" 3 {label(0, 3)} ": " 3 2 "}, "line 4: the label '2' is neither 0 nor 1"),
        ({" 14 4": " 9 4"}, "line 4: contours of 9 paddles in a folder of those of 14"),
    ],
)
def test_a_wrong_row_is_named(tmp_path, change, named):
    rows = lines(0)
    for old, new in change.items():
        assert old in rows[3]
        rows[3] = rows[3].replace(old, new)
    (tmp_path / "0.npy").write_text("\n".join(rows))
    with pytest.raises(DataError, match=named):
        read_metadata(tmp_path / "0.npy", 14)


def test_no_pickle_is_loaded_and_numbers_are_no_metadata(tmp_path):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    np.save(tmp_path / "0.npy", np.array([Trap()], dtype=object))
    with pytest.raises(DataError, match="pickles, which are never loaded"):
        read_metadata(tmp_path / "0.npy", 14)
    assert not (tmp_path / "sprung").exists()
    pickle.loads(pickle.dumps(Trap()))
    assert (tmp_path / "sprung").exists(), "the trap works where something loads it"
    np.save(tmp_path / "1.npy", np.zeros(3))
    with pytest.raises(DataError, match="not rows of strings"):
        read_metadata(tmp_path / "1.npy", 14)


def test_an_image_is_whole_or_none_at_all(tmp_path):
    """Cut anywhere, with any byte changed."""
    image = picture(0, 0) // 64 * 64  # compresses well, so that the file is short
    content, path = png(image), tmp_path / "x.png"
    path.write_bytes(content)
    np.testing.assert_array_equal(read_image(path, 32), image)
    for end in range(0, len(content) - 12, 7):  # before the closing chunk
        path.write_bytes(content[:end])
        assert read_image(path, 32) is None
    for at in range(0, len(content), 5):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        found = read_image(path, 32)
        assert found is None or (found == image).all()


def test_images_of_another_size_or_kind_and_missing_ones_are_refused(tmp_path):
    (tmp_path / "grey.png").write_bytes(png(picture(0, 0)))
    (tmp_path / "rgb.png").write_bytes(png(np.zeros((32, 32, 3), np.uint8)))
    with pytest.raises(DataError, match=r"grey\.png has 32 x 32 pixels of mode L, not 64 x 64"):
        read_image(tmp_path / "grey.png", 64)
    with pytest.raises(DataError, match="mode RGB"):
        read_image(tmp_path / "rgb.png", 32)
    with pytest.raises(DataError, match="is missing, though metadata names it"):
        read_image(tmp_path / "none.png", 32)


def test_a_row_that_comes_twice_is_refused(tmp_path, release):
    shutil.copy(release / "metadata/0.npy", release / "metadata/7.npy")
    with pytest.raises(DataError, match=r"metadata names imgs/0/sample_0\.png twice"):
        load(tmp_path)


# Where it lies


def locate(tmp_path, **changes) -> Any:
    return pathfinder.locate("official", data_dir=tmp_path / "data", cache_dir=tmp_path / "cache", **changes)


@pytest.mark.parametrize("place", ["", "lra_release", "lra_release/lra_release"])
def test_it_is_found_in_every_place_people_have_it(tmp_path, place):
    folder = write_release(tmp_path / "data" / place / SET)
    assert locate(tmp_path).path == folder


def test_two_copies_are_ambiguous_unless_they_are_one(tmp_path):
    near, far = (tmp_path / "data" / place for place in ("", "lra_release"))
    write_release(far / SET)
    (near / SET).parent.mkdir(parents=True)
    (near / SET).symlink_to(far / SET)
    assert locate(tmp_path).path.resolve() == far / SET
    (near / SET).unlink()
    write_release(near / SET)
    with pytest.raises(DataError) as error:
        locate(tmp_path)
    assert str(near / SET) in str(error.value)
    assert str(far / SET) in str(error.value)


def test_what_is_missing_is_named_with_its_difficulty_and_what_lies_beside_it(tmp_path):
    write_release(tmp_path / "data/pathfinder32/curv_baseline")
    (tmp_path / "data" / SET / "imgs").mkdir(parents=True)
    with pytest.raises(NotFound) as error:
        locate(tmp_path)
    said = str(error.value)
    for fact in (
        f"no {SET} with its imgs and metadata (source=official, hard) found",
        str(tmp_path / "data/lra_release/lra_release"),
        f"{tmp_path / 'data' / SET} is incomplete",
        f"{tmp_path / 'data/pathfinder32/curv_baseline'} is of another size or difficulty",
        f"--wildcards '*/{SET}/*'",
        "source=generated",
    ):
        assert fact in said
    assert locate(tmp_path, contour_length=6).path.name == "curv_baseline"
    for wrong in ({"size": 48}, {"contour_length": 7}):
        with pytest.raises(DataError, match="sizes are 32, 64, 128, 256, lengths 6, 9, 14"):
            locate(tmp_path, **wrong)
    assert pathfinder.locate("generated", data_dir=".", cache_dir=".", size=20, contour_length=5) is None
    with pytest.raises(DataError, match="unknown source 'surrogate'; it is generated or official"):
        pathfinder.locate("surrogate", data_dir=".", cache_dir=".")


def test_a_changed_folder_is_read_again(tmp_path, release):
    before = load(tmp_path, examples=sizes_without_the_bad())
    sound = release / "imgs/0/sample_3.png"
    sound.unlink()
    sound.write_bytes(png(picture(0, 3)))
    os.utime(sound.parent, (1, 1))  # a clock that is coarser than this test
    after = load(tmp_path, examples=sizes_without_the_bad())
    assert "imgs/0/sample_3.png" in set(before.skipped_files) - set(after.skipped_files)


# Generated


def test_images_are_those_of_the_generator_in_fixed_ranges(tmp_path):
    task = generated(tmp_path)
    examples = generate(pathfinder_parameters(32, 6, "documented"), 200, seed=0)
    for name, rows in (("test", slice(50)), ("validation", slice(50, 80)), ("train", slice(80, 200))):
        split = getattr(task, name)
        np.testing.assert_array_equal(pixels(split), examples["image"][rows].reshape(-1, 1024))
        assert split.labels.tolist() == examples["label"][rows].tolist()
    assert (task.source, task.skipped_files) == ("generated", ())
    assert list(task.baselines) == ["majority", "marker_position", "bag_of_tokens"]
    assert len({each.tobytes() for name in NAMES for each in pixels(getattr(task, name))}) == 200, "no split shares any"
    assert generated(tmp_path).fingerprint == task.fingerprint


def test_a_larger_training_split_leaves_the_others_alone_and_adds_to_what_is_there(tmp_path, monkeypatch):
    before = generated(tmp_path, examples=TINY | {"train": 20})
    folder = next((tmp_path / "cache/pathfinder").glob("images*"))
    made = {path: path.stat().st_mtime_ns for path in folder.glob("shard-*.npy")}
    after = generated(tmp_path, examples=TINY | {"train": 190})
    assert {path: path.stat().st_mtime_ns for path in made} == made
    for name in ("test", "validation"):
        np.testing.assert_array_equal(getattr(after, name).tokens, getattr(before, name).tokens)
        np.testing.assert_array_equal(getattr(after, name).labels, getattr(before, name).labels)
    np.testing.assert_array_equal(after.train.tokens[: 20 * 1024], before.train.tokens)


def test_one_core_and_two_make_the_same_bytes(tmp_path, monkeypatch):
    prints = set()
    for cores in (1, 2):
        monkeypatch.setattr(os, "sched_getaffinity", lambda process, cores=cores: set(range(cores)))
        prints.add(generated(tmp_path / str(cores)).fingerprint)
    assert len(prints) == 1


def test_seed_parameters_and_difficulty_make_other_images(tmp_path):
    small: dict[str, int | None] = {"train": 2, "validation": 1, "test": 1}
    changes: list[dict[str, Any]] = [{}, {"seed": 1}, {"parameters": "matched"}, {"contour_length": 9}]
    prints = [generated(tmp_path, **{"examples": small} | change).fingerprint for change in changes]
    assert len(set(prints)) == len(changes)


def test_a_damaged_shard_is_named(tmp_path):
    generated(tmp_path)
    shard = next((tmp_path / "cache/pathfinder").glob("images*")) / "shard-00001.npy"
    shard.write_bytes(shard.read_bytes()[:1000])
    with pytest.raises(DataError, match=r"shard-00001\.npy is damaged .*; delete it, and it is made again"):
        generated(tmp_path, max_length=1000)
    shard.unlink()
    assert generated(tmp_path, max_length=1000).max_length == 1000


def test_a_full_disk_is_blamed_on_the_cache(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pathfinder, "write_shards", full)
    with pytest.raises(DataError, match=r"cannot keep the images in .*No space left.*LRA_CACHE"):
        generated(tmp_path)


def test_marker_position_finds_a_rule_on_positions_whichever_marker_comes_first():
    rng = np.random.default_rng(0)
    markers = rng.integers(0, 32, (2000, 2, 2), dtype=np.int16)
    labels = (markers[..., 0].max(1) < 22).astype(np.uint8)
    swapped = markers[1000:, ::-1]
    assert marker_position(markers[:1000], labels[:1000], swapped, labels[1000:]) > 0.95
    assert (
        0.4 < marker_position(markers[:1000], rng.permutation(labels[:1000]), swapped, rng.integers(0, 2, 1000)) < 0.6
    )
    assert marker_position(markers[:3], np.ones(3), markers[3:7], np.array([1, 1, 0, 1])) == 0.75


# Settings


@pytest.mark.parametrize(("name", "size", "parameters"), [("pathfinder", 32, "documented"), ("pathx", 128, "matched")])
def test_the_arena_s_sets_are_the_hard_ones(name, size, parameters):
    config = OmegaConf.load(ROOT / "configs" / "task" / f"{name}.yaml")
    keywords = {str(key) for key in config} - {"_target_"}
    assert keywords == set(inspect.signature(pathfinder.load).parameters)
    assert (config.size, config.contour_length, config.parameters) == (size, 14, parameters)
    assert (config.source, config.max_length, set(config.examples.values())) == ("generated", size**2, {None})


def test_pixels_beyond_an_image_are_refused(tmp_path):
    for wrong in (0, 1025):
        with pytest.raises(DataError, match="an image of size=32 has 1,024 pixels"):
            generated(tmp_path, max_length=wrong)


def test_black_is_not_padding(tmp_path):
    batch = generated(tmp_path).train.batch(np.arange(120), 1024)
    assert (batch.tokens == 0).mean() > 0.5
    assert (batch.lengths == 1024).all()
