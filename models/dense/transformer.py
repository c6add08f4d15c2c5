"""The Transformer: every query attends to every key. The reference of every ratio."""

from models.attention import full_attention
from models.mixer import AttentionMixer, Growth


class Transformer(AttentionMixer):
    """Softmax attention over all real tokens.

    Its L x L matrix is in memory on accelerators; on a CPU, where blocks of queries are faster, one block's part of it.
    """

    family = "dense"
    paper = "Vaswani et al. 2017, arXiv:1706.03762"
    growth = Growth(2, 2)
    cost = "L * L * D"
    quadratic = True

    def attend(self, q, k, v, mask, drop):
        return full_attention(q, k, v, mask, drop=drop)
