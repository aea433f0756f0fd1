"""Output of known values with real Paddle: no break, the same text, the same place."""

import contextlib
import io
import logging
import warnings

import paddle
import pytest

import sot


@contextlib.contextmanager
def root_logger():
    """The root logger with one handler, which writes what and where, instead of pytest's; gives the stream."""
    root, stream = logging.getLogger(), io.StringIO()
    before, level = root.handlers[:], root.level
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(levelname)s %(filename)s:%(lineno)d %(funcName)s %(message)s"))
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    try:
        yield stream
    finally:
        root.handlers[:] = before
        root.setLevel(level)


LOGGER = logging.getLogger("sot.tests")


def logs(x, n):
    logging.info("shape %s", x.shape)
    y = x * n
    LOGGER.warning("n is %s", n)
    logging.debug("hidden")
    return y


@pytest.mark.alone("handlers that hold their stream tell of each run")
def test_logging_is_replayed(check):
    with root_logger() as stream:
        logs(paddle.ones([2]), 3)
        expected = stream.getvalue()
        check(logs, paddle.ones([2]), 3)
    # Eager once more in `check`, then twice translated.
    assert stream.getvalue() == expected * 4
    assert "test_output.py" in expected and "logs n is 3" in expected


def test_a_level_set_later_counts():
    fast = sot.symbolic_translate(logs)
    with root_logger() as stream:
        fast(paddle.ones([2]), 3)
        logging.getLogger().setLevel(logging.ERROR)
        seen = stream.getvalue()
        fast(paddle.ones([2]), 3)
        assert stream.getvalue() == seen and sot.stats().hits == 1


def warns(x):
    y = x + 1
    warnings.warn("it is old", DeprecationWarning)
    return y * 2


def test_warnings_are_replayed(check):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        check(warns, paddle.ones([2]))
    line = warns.__code__.co_firstlineno + 2
    assert [(str(w.message), w.category, w.filename, w.lineno) for w in seen] == [
        ("it is old", DeprecationWarning, __file__, line)
    ] * 3


def test_a_warning_made_an_error_is_raised():
    fast = sot.symbolic_translate(warns)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(DeprecationWarning, match="it is old"):
                fast(paddle.ones([2]))


def test_a_loss_is_printed_without_new_translations(capsys):
    def step(x, k):
        loss = (x * k).sum()
        print(f"loss {float(loss):.2f}")
        print("again", float(loss))
        return x + 1

    x = paddle.ones([2])
    ks = [paddle.full([2], 0.5 * k) for k in range(8)]
    expected = [step(x, k).tolist() for k in ks]
    eager = capsys.readouterr().out
    fast = sot.symbolic_translate(step)
    assert [fast(x, k).tolist() for k in ks] == expected
    assert capsys.readouterr().out == eager
    assert sot.stats().translations <= 5, sot.stats()


def scale(x):
    return x * 2


class Block(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = paddle.nn.Linear(2, 2)

    def forward(self, x):
        return paddle.nn.functional.relu(self.linear(x)) + x


def test_translated_blocks_are_called_as_units():
    model = paddle.nn.Sequential(*(sot.symbolic_translate(Block()) for _ in range(3)))
    x = paddle.ones([1, 2])
    explanation = sot.explain(model)(x)
    assert explanation.result.tolist() == model(x).tolist()
    (record,) = explanation.records
    assert record.sir.count("sir        || ") == 3 and record.statements == 9, record.sir
    assert record.sir.count("StatementIR: ") == 2 and "_forward" in record.sir


def test_warnings_of_static_mode_do_not_reach_the_user():
    model = paddle.nn.Linear(3, 2)
    clip = paddle.nn.ClipGradByGlobalNorm(0.5)
    optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters(), grad_clip=clip)

    def step(x):
        # Values of a program have no place, which `zeros_like` and the backward pass ask for.
        loss = (model(x) ** 2 + paddle.zeros_like(x[:, :2])).mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    fast = sot.symbolic_translate(step)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            fast(paddle.ones([2, 3]))
    assert sot.stats().graphs >= 1 and not sot.stats().fallbacks, sot.stats()
