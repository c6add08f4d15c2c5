import pytest

from lra.errors import BadInput
from lra.options import take

KINDS = {"threads": int, "overhead": bool}


def test_options_are_taken_out_of_the_overrides():
    given = ["model=local", "threads=2", "overhead=true", "speed.seconds=1"]
    assert take(given, KINDS) == ({"threads": 2, "overhead": True}, ["model=local", "speed.seconds=1"])
    assert take(["model=local"], KINDS) == ({"threads": None, "overhead": False}, ["model=local"])


@pytest.mark.parametrize("argument", ["threads=0", "threads=-1", "threads=two", "threads", "overhead=yes", "overhead"])
def test_a_value_of_another_kind_is_refused(argument):
    with pytest.raises(BadInput, match=argument.partition("=")[0]):
        take([argument], KINDS)
