"""Exponents and crossovers, on curves whose answer is known."""

import pytest

from lra.report.growth import Series, crossover, peak_memory, step_time
from lra.report.load import load
from lra.report.rows import Condition, Row, join

ROW = Row("x", "x", "x", "user")
LENGTHS = (256, 512, 1024, 2048, 4096)


def series(law, lengths=LENGTHS) -> Series:
    return Series(ROW, lengths, tuple(law(length) for length in lengths))


def test_exponent_of_a_power_law():
    assert series(lambda length: 3 * length**1.5).exponent == pytest.approx(1.5)
    assert series(lambda length: 3.0, (256,)).exponent is None


def test_exponent_looks_at_the_longest_lengths_only():
    assert series(lambda length: length**2.0 if length >= 1024 else 1e6).exponent == pytest.approx(2)


def test_crossover_of_a_line_and_a_parabola():
    line, parabola = series(lambda n: 1000.0 * n), series(lambda n: float(n * n))
    found = crossover(line, parabola)
    assert found is not None
    assert (found.kind, found.length) == ("measured", pytest.approx(1000, rel=0.01))
    assert str(found) == "1,000"


def test_faster_everywhere_and_nowhere():
    parabola = series(lambda n: float(n * n))
    assert str(crossover(series(lambda n: float(n)), parabola)) == "\N{LESS-THAN OR EQUAL TO} 256"
    assert str(crossover(series(lambda n: 2.0 * n * n), parabola)) == "never"


def test_crossover_beyond_what_was_measured_is_extrapolated_and_says_so():
    found = crossover(series(lambda n: 8192.0 * n), series(lambda n: float(n * n)))
    assert found is not None
    assert (found.kind, found.length) == ("extrapolated", pytest.approx(8192))
    assert str(found) == "~ 8,192"
    far = crossover(series(lambda n: 1e9 * n), series(lambda n: float(n * n)))
    assert far is not None
    assert far.length is None


def test_only_shared_lengths_count():
    assert crossover(series(float, (128,)), series(float, (256,))) is None


def test_series_leave_out_other_work_failures_and_simulated_cells(make):
    cells = [make.cell(0.1, 256), make.cell(0.2, 512), make.cell(0.9, 1024, 32), make.cell(0.9, 1024, mode="inference")]
    cells.append(make.cell(length=2048, status="out_of_memory", step_seconds=None, sequences_per_second=None))
    make.speed("local", cells)
    make.speed("longformer", [make.cell(simulated=True)])
    rows = join(load(make.root), "mini")
    condition = Condition("toy-cpu", "train", 256, 8, "float32")
    (found,) = step_time(rows, condition)
    assert (found.lengths, found.values) == ((256, 512), (0.1, 0.2))
    (memory,), source = peak_memory(rows, condition)
    assert (memory.values, source) == ((3e8, 3e8), "compiled")
