"""Texts as sequences of bytes: id = byte + 1, 0 for padding."""

from collections.abc import Sequence

import numpy as np

from tasks.task import Split

VOCAB_SIZE = 257


def as_text(tokens: np.ndarray) -> str:
    """The text of token ids [L]; bytes that are no UTF-8, such as a character that was cut, show as U+FFFD."""
    return (np.asarray(tokens) - 1).astype(np.uint8).tobytes().decode(errors="replace")


class ByteTexts:
    """Collects texts, each cut at `max_length` bytes, and makes a split of them.

    Attributes:
        truncated: how many were cut.
    """

    def __init__(self, max_length: int) -> None:
        self.max_length = max_length
        self.truncated = 0
        self._bytes = bytearray()
        self._ends = [0]

    def add(self, text: bytes) -> None:
        """Appends one text."""
        self.truncated += len(text) > self.max_length
        self._bytes += text[: self.max_length]
        self._ends.append(len(self._bytes))

    def split(self, labels: Sequence[int], paired: bool = False) -> Split:
        """The split with these labels, uint16 ids; what was collected is given up, as it may be gigabytes."""
        tokens = np.frombuffer(self._bytes, np.uint8).astype(np.uint16)
        tokens += 1
        offsets = np.array(self._ends, np.int64)
        self._bytes, self._ends = bytearray(), [0]
        return Split(tokens, offsets, np.array(labels, np.uint8), paired)
