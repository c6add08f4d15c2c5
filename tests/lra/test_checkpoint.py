"""What is read back is what was saved, and a checkpoint that can't be that is named and passed over."""

import shutil

import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest

from lra.checkpoint import KEPT, Checkpoints

MINE = {"run": "0123", "data": "4567"}


@pytest.fixture
def said():
    return []


def arrays(value):
    """No two values alike, so that compression leaves every one of them in the files."""
    return {"a": np.random.default_rng(value).normal(size=(16, 16)).astype(np.float32), "b": (jnp.int32(value),)}


def open_in(folder, said, belongs_to=MINE):
    return Checkpoints(folder, belongs_to, said.append)


def fill(folder, said, steps, belongs_to=MINE):
    checkpoints = open_in(folder, said, belongs_to)
    for step in steps:
        checkpoints.save(step, arrays(step), {"step": step})
    checkpoints.close()


def restored(folder, said):
    checkpoints = open_in(folder, said)
    found = checkpoints.restore_latest(arrays(0))
    checkpoints.close()
    if found is None:
        return None
    content, facts = found
    np.testing.assert_array_equal(content["a"], arrays(facts["step"])["a"])
    assert content["b"][0] == facts["step"]
    assert content["b"][0].dtype == np.int32
    return facts["step"]


def test_nothing_saved_is_nothing_found(tmp_path, said):
    assert restored(tmp_path / "new", said) is None
    assert said == []


def test_the_newest_is_found_and_the_last_ones_are_kept(tmp_path, said):
    fill(tmp_path, said, [1, 2, 3, 10])
    assert restored(tmp_path, said) == 10
    assert sorted(int(path.name) for path in tmp_path.iterdir()) == [3, 10][-KEPT:]
    assert said == []


def truncate(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def flip(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("damage", [truncate, flip, lambda file: file.unlink()], ids=["truncated", "flipped", "gone"])
def test_whichever_file_is_damaged_nothing_wrong_is_read(tmp_path, said, damage):
    whole = tmp_path / "whole"
    fill(whole, said, [10, 20])
    passed_over = set()
    files = [path.relative_to(whole / "20") for path in (whole / "20").rglob("*") if path.is_file()]
    for number, file in enumerate(files):
        folder = tmp_path / str(number)
        shutil.copytree(whole, folder)
        damage(folder / "20" / file)
        said.clear()
        if restored(folder, said) == 10:  # `restored` holds the values against the step they claim to be of
            passed_over.add(file.parts[0])
            assert len(said) == 1
            assert f"checkpoint 20 in {folder} can't be used" in said[0]
            assert (folder / "unusable-20-0").is_dir()
        else:
            assert said == []
    assert passed_over >= {"arrays", "facts"}


def test_the_place_of_a_damaged_one_is_free_again(tmp_path, said):
    fill(tmp_path, said, [10, 20])
    truncate(tmp_path / "20" / "facts" / "metadata")
    assert restored(tmp_path, said) == 10
    fill(tmp_path, said, [20])
    assert restored(tmp_path, said) == 20
    assert len(said) == 1


def test_arrays_that_are_not_what_was_saved_are_passed_over(tmp_path, said):
    """Whatever the storage itself does not notice, the checksum does."""
    fill(tmp_path, said, [10, 20])
    shutil.rmtree(tmp_path / "20" / "arrays")
    shutil.copytree(tmp_path / "10" / "arrays", tmp_path / "20" / "arrays")
    assert restored(tmp_path, said) == 10
    assert "its content is not what was saved" in said[0]


def test_a_step_saved_again_while_its_first_save_is_under_way_is_there_once_and_whole(tmp_path, said):
    checkpoints = open_in(tmp_path, said)
    for content in range(5):
        checkpoints.save(7, arrays(content), {"step": content})
    checkpoints.close()
    assert restored(tmp_path, said) == 4
    assert [path.name for path in tmp_path.iterdir()] == ["7"]
    assert said == []


@pytest.mark.parametrize("other", [{"run": "ffff", "data": "4567"}, {"run": "0123", "data": "ffff"}])
def test_another_runs_checkpoint_is_named_and_passed_over(tmp_path, said, other):
    fill(tmp_path, said, [10])
    fill(tmp_path / "other", said, [20], belongs_to=other)
    shutil.move(tmp_path / "other" / "20", tmp_path / "20")
    assert restored(tmp_path, said) == 10
    assert "checkpoint 20" in said[0]
    assert "ffff" in said[0]


def test_a_strangers_checkpoint_is_named_and_passed_over(tmp_path, said):
    fill(tmp_path, said, [10])
    with ocp.CheckpointManager(tmp_path) as manager:
        manager.save(30, args=ocp.args.StandardSave({"weights": np.zeros(3)}))
    assert restored(tmp_path, said) == 10
    assert "checkpoint 30" in said[0]


def test_one_of_other_shapes_is_named_and_passed_over(tmp_path, said):
    checkpoints = open_in(tmp_path, said)
    checkpoints.save(10, {"a": np.zeros((2, 2), np.float32)}, {"step": 10})
    checkpoints.close()
    assert restored(tmp_path, said) is None
    assert "checkpoint 10" in said[0]


def test_unfinished_ones_are_named_and_passed_over(tmp_path, said):
    fill(tmp_path, said, [10])
    shutil.copytree(tmp_path / "10", tmp_path / "20.orbax-checkpoint-tmp")  # killed before the last rename
    (tmp_path / "30").mkdir()  # a name without content
    assert restored(tmp_path, said) == 10
    assert sorted(text.split(" in ")[0] for text in said) == ["checkpoint 20", "checkpoint 30"]
    fill(tmp_path, said, [20])
    assert restored(tmp_path, said) == 20


def test_an_array_changed_after_the_save_began_does_not_reach_the_disk(tmp_path, said):
    checkpoints, content = open_in(tmp_path, said), arrays(7)
    checkpoints.save(7, content, {"step": 7})
    content["a"][:] = -1
    checkpoints.close()
    assert restored(tmp_path, said) == 7


@pytest.mark.parametrize("notice", ["save", "wait", "close"])
def test_a_failed_background_save_is_raised(tmp_path, said, notice, monkeypatch):
    checkpoints = open_in(tmp_path, said)
    checkpoints.save(1, arrays(1), {"step": 1})
    checkpoints.wait()

    def full(*arguments, **keywords):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(ocp.path.atomicity.AtomicRenameTemporaryPath, "finalize", full)
        checkpoints.save(2, arrays(2), {"step": 2})
        actions = {
            "save": lambda: checkpoints.save(3, arrays(3), {"step": 3}),
            "wait": checkpoints.wait,
            "close": checkpoints.close,
        }
        with pytest.raises(OSError, match="No space left"):
            actions[notice]()
    assert restored(tmp_path, said) == 1


def test_a_full_disk_is_said_and_what_was_saved_stays(small_disk, said, capfd):
    folder = small_disk / "checkpoints"
    fill(folder, said, [1, 2])
    (small_disk / "filling").write_bytes(bytes(900_000))
    checkpoints = open_in(folder, said)
    content = arrays(3) | {"c": np.random.default_rng(0).normal(size=100_000)}
    checkpoints.save(3, content, {"step": 3})
    with pytest.raises(OSError, match="No space left on device") as caught:
        checkpoints.wait()
    assert caught.value.filename == str(folder)
    assert "Traceback" not in capfd.readouterr().err
    (small_disk / "filling").unlink()
    assert restored(folder, said) == 2
    assert said == [f"checkpoint 3 in {folder} was never finished and is passed over"]
