"""Growth by compiling: the fit, the guard on the instrument, the table in the README."""

import jax
import pytest

from lra import growth
from lra.errors import BadInput
from lra.growth import MARKERS, README, Costs, Plain, cost, faster_than_declared, put_between_markers, require_sound
from lra.subject import TOY, Subject
from lra.variants import Variant, resolve, variant_names
from models.mixer import Growth

LENGTHS = (1024, 2048, 4096)


def law(exponent):
    return tuple(3.0 * length**exponent for length in LENGTHS)


def test_exponents_are_those_of_power_laws():
    found = Costs(LENGTHS, law(2), law(1)).exponents()
    assert found == (pytest.approx(2), pytest.approx(1))
    bent = Costs((256, *LENGTHS, 8192), (1e9, *law(2), 3.0 * 8192**2), (1.0, *law(1), 3.0 * 8192))
    assert bent.exponents() == (pytest.approx(2), pytest.approx(1))  # the upper half
    assert bent.exponents(0).compute < 1.5


@pytest.mark.parametrize(("compute", "memory"), [(1, 2), (2, 1), (2.5, 2), (2, 2.5), (2, 0)])
def test_an_instrument_that_does_not_see_a_square_is_refused(compute, memory):
    with pytest.raises(ValueError, match="the instrument is wrong"):
        require_sound(Costs(LENGTHS, law(compute), law(memory)))
    require_sound(Costs(LENGTHS, law(2), law(2)))


def test_the_instrument_sees_the_square_of_dense_attention_and_the_blocks_of_the_transformer():
    (plain, blocks) = (
        [cost(Subject(Variant("x", target), TOY), length) for length in (512, 1024)]
        for target in (f"{Plain.__module__}.{Plain.__name__}", "models.dense.transformer.Transformer")
    )
    assert 3 < plain[1][1] / plain[0][1] < 5
    if jax.default_backend() == "cpu":
        assert blocks[1][1] / blocks[0][1] < 2.5
    assert blocks[1][0] / blocks[0][0] > 2.5


def test_an_instrument_that_is_wrong_writes_nothing(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(growth, "cost", lambda subject, length: (float(length), float(length)))
    monkeypatch.setattr(growth, "README", tmp_path / "README.md")
    assert growth.main(["model=all", "write=true"]) == 3
    assert "the instrument is wrong: compute of dense attention grows 2.00 times" in capsys.readouterr().err
    assert not (tmp_path / "README.md").exists()


def test_the_table_is_written_between_its_markers_and_says_who_breaks_a_promise(monkeypatch, capsys, tmp_path):
    def square(subject, length):
        return float(length) ** 2, float(length) ** 2

    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{MARKERS[0]}\nold\n{MARKERS[1]}\nafter\n")
    monkeypatch.setattr(growth, "cost", square)
    monkeypatch.setattr(growth, "README", readme)
    assert growth.main(["model=all", "task=listops", "preset=mini", "write=true"]) == 3
    assert "local, " in capsys.readouterr().err
    first = readme.read_text()
    assert growth.main(["model=all", "write=true"]) == 3
    assert readme.read_text() == first
    before, head, _, *body, after = first.replace(f"{MARKERS[0]}\n", "").replace(f"{MARKERS[1]}\n", "").splitlines()
    assert (before, after) == ("before", "after")
    assert head.startswith("| variant | compute declared | 1K-16K | 4K-16K | GFLOP at 16K | memory declared |")
    assert [row.split("`")[1] for row in body] == variant_names()
    assert body[0] == "| `transformer` | 2 | 2.00 | 2.00 | 0.3 | 2 | 2.00 | 2.00 | 256 |"


def test_a_text_without_markers_is_left_alone():
    with pytest.raises(ValueError, match="lacks the lines"):
        put_between_markers("nothing here", "table")


def test_what_grows_faster_than_declared():
    assert faster_than_declared(Growth(1, 1), Growth(1.2, 1))
    assert faster_than_declared(Growth(2, 1), Growth(2, 1.2))
    assert not faster_than_declared(Growth(1, 1), Growth(1.1, 0.5))


def rows_in_the_readme():
    """Name and declared exponents of each row."""
    table = README.read_text().partition(MARKERS[0])[2].partition(MARKERS[1])[0]
    rows = [line.split("|") for line in table.splitlines() if line.startswith("| `")]
    return {row[1].strip(" `"): (float(row[2]), float(row[6])) for row in rows}


def test_the_readme_says_what_the_classes_declare():
    rows = rows_in_the_readme()
    assert "transformer" in rows
    for name, declared in rows.items():
        assert declared == tuple(Subject(resolve(name), TOY).cls.growth), (
            f"{name}: write the table anew, see the README"
        )


@pytest.mark.slow
def test_the_readme_has_a_row_for_every_variant():
    assert list(rows_in_the_readme()) == variant_names(), "write the table anew, see the README"


@pytest.mark.parametrize(
    "arguments", [["model=bigbrid"], ["model=local", "write=true"], ["model.window=3"], ["write=1"]]
)
def test_bad_input(arguments, capsys):
    assert growth.main(arguments) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    with pytest.raises(BadInput):
        growth.parse(arguments)
