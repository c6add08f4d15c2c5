"""What a task shows of an example is what was encoded."""

import numpy as np
import pytest

from tasks import image, listops, pathfinder, retrieval, text
from tasks.byte_text import ByteTexts


def test_an_expression_is_its_tokens():
    words = "[MAX 2 [SM 7 0 ] 9 ]"
    assert listops.show(listops.encode(words)) == words


@pytest.mark.parametrize("module", [text, retrieval])
def test_a_text_is_its_bytes_and_a_cut_character_is_seen(module):
    texts = ByteTexts(max_length=12)
    for written in ("good\n<br />", "twelve bytes\u00e9", "eleven byte\u00e9"):
        texts.add(written.encode())
    split = texts.split([0, 1, 1])
    assert [module.show(split.sequence(i)) for i in range(3)] == ["good\n<br />", "twelve bytes", "eleven byte\ufffd"]


def test_an_image_is_its_rows_and_what_was_cut_is_missing():
    tokens = np.arange(1024) % 256
    for shown in (image.show(tokens, source="official"), pathfinder.show(tokens, size=32)):
        assert shown.shape == (32, 32)
        assert shown.reshape(-1).tolist() == tokens.tolist()
    for shown in (image.show(tokens[:100], source="official"), pathfinder.show(tokens[:100], size=32)):
        assert shown.shape == (32, 32)
        assert np.isnan(shown.reshape(-1)[100:]).all()
        assert shown[1, 2] == 34
    assert image.show(tokens[:256], source="surrogate").shape == (16, 16)


@pytest.mark.parametrize("module", [text, retrieval, image, pathfinder])
def test_every_class_has_a_name(module):
    assert len(set(module.LABELS)) == module.SHAPE.num_classes
