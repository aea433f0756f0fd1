"""Five models for the tests of reports: one graph, breaks, recompiles, a thousand statements, left to CPython."""

import paddle
from paddle import nn

import sot


class Block(nn.Layer):
    def __init__(self, width=8):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.feed = nn.Linear(width, width)

    def forward(self, x):
        return x + paddle.tanh(self.feed(self.norm(x)))


class Whole(nn.Layer):
    def __init__(self, depth=3):
        super().__init__()
        self.blocks = nn.LayerList([Block() for _ in range(depth)])
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Breaking(Whole):
    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        # Text that would end a script in a page: </script><script>document.title = "taken over"</script> &lt; <!--
        if x.sum() > 0:
            x = x * 2
        return self.head(x)


class Scaled(Whole):
    def forward(self, x, scale="none"):
        if scale == "half":
            x = x / 2
        return super().forward(x)


def thousand(x):
    for _ in range(250):
        x = paddle.tanh(x * 1.5 + 0.5) - x
    return x


def row_by_row(x):
    """Needs the first size of `x`, so this size cannot be left open."""
    total = paddle.zeros([4])
    for row in x:
        total = total + paddle.tanh(row)
    return total


class Left(Whole):
    def forward(self, x):
        x = self.blocks[0](x)
        sot.psdb.fallback()
        return self.head(x)


def calls():
    """Return names, callables, and the arguments of each call."""
    x = paddle.linspace(-1, 1, 16).reshape([2, 8])
    return [
        ("whole", Whole(), [(x,), (x,)]),
        ("breaking", Breaking(), [(x,)]),
        ("recompiling", Scaled(), [(x,), (x, "half"), (x, "double"), (x,)]),
        ("thousand", thousand, [(x,)]),
        ("left", Left(), [(x,)]),
    ]


def with_needed_size():
    """Return report data of a function that is translated anew for each size, as it needs the size."""
    sot.reset()
    kept = sot._sot.report_upcoming()
    sot._sot.report_details(True)
    try:
        fast = sot.symbolic_translate(row_by_row)
        for rows in (3, 5):
            fast(paddle.ones([rows, 4]))
        return sot._report_files.data(kept)
    finally:
        sot._sot.report_details(False)
        sot._sot.report_forget(kept)


def no_longer_translated():
    """Return report data of a function for which each call would need another translation."""
    def scaled(x, options):
        return paddle.tanh(x * options.factor + 1) + x

    sot.reset()
    kept = sot._sot.report_upcoming()
    sot._sot.report_details(True)
    try:
        fast = sot.symbolic_translate(scaled)
        for _ in range(30):
            fast(paddle.ones([2]), type("Options", (), {"factor": 2.0})())
        return sot._report_files.data(kept)
    finally:
        sot._sot.report_details(False)
        sot._sot.report_forget(kept)
