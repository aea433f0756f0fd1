"""Output of known values with real Paddle: no graph break, the same text at the same point."""

import contextlib
import copy
import importlib.util
import io
import logging
import logging.handlers
import sys
import traceback
import types
import warnings

import paddle
import pytest

import sot


@contextlib.contextmanager
def root_logger():
    """Replace pytest's handlers of the root logger by one that writes places and messages to the yielded stream."""
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
    # `check` runs the function once more in eager mode, then twice translated.
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


class ListHandler(logging.Handler):
    def __init__(self, seen):
        super().__init__()
        self.seen = seen

    def emit(self, record):
        self.seen.append(record.getMessage())


def note(seen, function):
    """Return a function that notes each call, and then calls `function`."""
    return lambda *args, **kwargs: (seen.append(1), function(*args, **kwargs))[1]


def with_own_emit(logger, seen, patch):
    handler = logging.StreamHandler(io.StringIO())
    handler.emit = lambda record: seen.append(record)
    logger.addHandler(handler)


def with_own_formatter(logger, seen, patch):
    handler, formatter = logging.StreamHandler(io.StringIO()), logging.Formatter()
    formatter.format = note(seen, formatter.format)
    handler.setFormatter(formatter)
    logger.addHandler(handler)


def with_own_stream(logger, seen, patch):
    stream = io.StringIO()
    handler = logging.StreamHandler(Tee(stream, seen))
    logger.addHandler(handler)


def with_own_emit_of_all(logger, seen, patch):
    logger.addHandler(logging.StreamHandler(io.StringIO()))
    patch.setattr(logging.StreamHandler, "emit", lambda self, record: seen.append(record))


class Tee:
    def __init__(self, stream, seen):
        self.stream, self.seen = stream, seen

    def write(self, text):
        self.seen.append(text)
        return self.stream.write(text)

    def flush(self):
        self.stream.flush()


def assert_seen(outcomes, at):
    """Assert that four calls have changing outcomes, equal in both modes, with hits if the change comes late."""
    expected = outcomes(lambda fn: fn)
    assert expected[0] != expected[3]
    assert outcomes(sot.symbolic_translate) == expected
    stats = sot.stats()
    assert stats.graphs and (stats.hits or at == 0)


CHANGES = {
    "handler": lambda logger, seen, patch: logger.addHandler(ListHandler(seen)),
    "emit": with_own_emit,
    "emit of all": with_own_emit_of_all,
    "formatter": with_own_formatter,
    "stream": with_own_stream,
    "handle": lambda logger, seen, patch: setattr(logger, "handle", note(seen, logger.handle)),
    "filter": lambda logger, seen, patch: logger.addFilter(lambda record: seen.append(1) or True),
    "filter of a handler": lambda logger, seen, patch: logger.handlers[0].addFilter(lambda record: seen.append(1) or True),
    "factory": lambda logger, seen, patch: patch.setattr(logging, "_logRecordFactory", note(seen, logging.LogRecord)),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("at", [0, 2])
@pytest.mark.alone("what handlers of the program hold is another after each run")
def test_what_the_programs_own_handlers_do_is_seen(change, at, monkeypatch):
    def outcomes(wrap):
        seen, logger, results = [], logging.Logger("own"), []
        logger.propagate = False
        logger.addHandler(logging.StreamHandler(io.StringIO()))

        def called(x):
            y = x * 2
            logger.warning("here")
            return y + len(seen)

        fast = wrap(called)
        for step in range(4):
            if step == at:
                CHANGES[change](logger, seen, monkeypatch)
            results.append(fast(paddle.ones([2])).tolist())
        monkeypatch.undo()
        return results

    assert_seen(outcomes, at)


@pytest.mark.alone("a handler gets the records of both runs")
def test_a_handler_that_keeps_records_is_seen():
    keeping, logger = logging.handlers.MemoryHandler(100, logging.ERROR), logging.Logger("kept")
    logger.addHandler(keeping)

    def called(x):
        logger.warning("here")
        return x * len(keeping.buffer)

    fast = sot.symbolic_translate(called)
    assert [fast(paddle.ones([1])).item() for _ in range(3)] == [1, 2, 3]


@pytest.mark.differs
@pytest.mark.parametrize("at", [0, 2])
@pytest.mark.alone("what is printed is noted in each run")
def test_what_the_programs_own_stdout_does_is_seen(at):
    def outcomes(wrap):
        seen, results = [], []

        def called(x):
            y = x * 2
            print("here", x.shape)
            return y + len(seen)

        fast = wrap(called)
        for step in range(4):
            own = contextlib.redirect_stdout(Tee(io.StringIO(), seen)) if step >= at else contextlib.nullcontext()
            with own:
                results.append(fast(paddle.ones([2])).tolist())
        return results

    assert_seen(outcomes, at)


def own_way_to_show():
    """Return the original function of `warnings` that shows a warning. Pytest has replaced it by a list."""
    spec = importlib.util.find_spec("warnings")
    fresh = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fresh)
    return types.FunctionType(fresh._showwarnmsg_impl.__code__, vars(warnings))


SHOWN = {
    "showwarning": lambda seen: (warnings, "showwarning", lambda *args, **kwargs: seen.append(1)),
    "formatwarning": lambda seen: (warnings, "formatwarning", note(seen, warnings.formatwarning)),
    "stderr": lambda seen: (sys, "stderr", Tee(io.StringIO(), seen)),
}


@pytest.mark.differs
@pytest.mark.parametrize("change", SHOWN)
@pytest.mark.parametrize("at", [0, 2])
@pytest.mark.alone("what is warned of is noted in each run")
def test_how_the_program_shows_warnings_is_seen(change, at, monkeypatch):
    def outcomes(wrap):
        seen, results = [], []

        def called(x):
            y = x * 2
            warnings.warn("here")
            return y + len(seen)

        fast = wrap(called)
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            monkeypatch.setattr(warnings, "_showwarnmsg_impl", own_way_to_show())
            for step in range(4):
                if step == at:
                    monkeypatch.setattr(*SHOWN[change](seen))
                results.append(fast(paddle.ones([2])).tolist())
            monkeypatch.undo()
        return results

    assert_seen(outcomes, at)


def ascii_file():
    return io.TextIOWrapper(io.BytesIO(), encoding="ascii")


def closed_file():
    file = io.StringIO()
    file.close()
    return file


def print_to(file, text):
    print(text, 3, sep="|", file=file)


def print_to_stdout(file, text):
    with contextlib.redirect_stdout(file):
        print(text)


@pytest.mark.parametrize("printing", [print_to, print_to_stdout])
@pytest.mark.parametrize("make", [ascii_file, closed_file])
def test_print_fails_where_the_program_catches_it(make, printing):
    def called(x, file, text):
        y = x * 2
        try:
            printing(file, text)
        except ValueError as error:
            return y, type(error)
        return y + 1, None

    def outcomes(fn):
        file = make()
        # The first file accepts all texts, so the calls with the second file meet an existing translation.
        calls = [(io.StringIO(), "text"), (io.StringIO(), "\u00e9"), (file, "text"), (file, "\u00e9"), (file, "text")]
        return [(y.tolist(), error) for y, error in (fn(paddle.ones([2]), *call) for call in calls)]

    expected = outcomes(called)
    assert any(error for _, error in expected)
    assert outcomes(sot.symbolic_translate(called)) == expected
    assert sot.stats().graphs


def test_print_in_a_try_does_not_break(check, capsys):
    def called(x):
        try:
            with paddle.no_grad():
                print("here", x.shape)
        except OSError:
            return x
        return x * 2

    check(called, paddle.ones([2]))
    assert capsys.readouterr().out == f"here {paddle.ones([2]).shape}\n" * 3


class Warns(paddle.nn.Layer):
    def forward(self, x, level, way):
        way(level)
        return x + 1


class WarnsWhenCopied:
    def __init__(self, level, way):
        self.call = (level, way)

    def __deepcopy__(self, memo):
        level, way = self.call
        way(level)
        return self


def in_a_layer(x, level, way):
    return PLAIN(x, level, way)


def in_a_hook(x, level, way):
    return HOOKED(x)


def in_a_copied_object(x, level, way):
    copy.deepcopy([WarnsWhenCopied(level, way)])
    return x + 1


def in_a_helper(x, level, way):
    way(level)
    return x + 1


def warn(level):
    warnings.warn("w", stacklevel=level)


def write_log(level):
    FRAMES_LOGGER.warning("w", stacklevel=level)


def name_caller(level):
    CALLERS.append(sys._getframe(level).f_code.co_name)


PLAIN, HOOKED, CALLERS, FRAMES_LOGGER = Warns(), paddle.nn.ReLU(), [], logging.getLogger("frames")


@pytest.mark.parametrize("way", [warn, write_log, name_caller], ids=lambda way: way.__name__)
@pytest.mark.parametrize("place", [in_a_layer, in_a_hook, in_a_copied_object, in_a_helper], ids=lambda place: place.__name__)
def test_callers_are_counted_with_the_frames_of_libraries(place, way):
    """`Layer.__call__` and `copy.deepcopy` have frames in eager mode, which a `stacklevel` counts."""

    def f(x, level):
        return place(x, level, way) * 2

    def seen(run, level):
        hook = HOOKED.register_forward_pre_hook(lambda layer, inputs: way(level))
        del CALLERS[:]
        try:
            with root_logger() as stream, warnings.catch_warnings(record=True) as shown:
                warnings.simplefilter("always")
                for _ in range(2):
                    result = run(paddle.ones([2]), level)
        finally:
            hook.remove()
        return result.tolist(), [(w.filename, w.lineno) for w in shown], stream.getvalue(), list(CALLERS)

    for level in (1, 2, 3, 4) if way is name_caller else (1, 2, 3, 4, 0, -1, -(2**63)):
        sot.reset()
        assert seen(sot.symbolic_translate(f), level) == seen(f, level), level
        assert sot.stats().translations, level


class OwnWarning(UserWarning):
    pass


class Raises(paddle.nn.Layer):
    def forward(self, x):
        y = x * 2
        raise ValueError("no")


def warned_by_an_object(x):
    """A graph breaks at a warning whose text is not known."""
    return WARNS_BY_OBJECT(x * 2) + 1


class WarnsByObject(paddle.nn.Layer):
    def forward(self, x):
        y = x * 3
        warnings.warn(OwnWarning("w"), stacklevel=3)
        return y + 1


def raised_in_a_layer(x):
    return paddle.nn.Sequential(paddle.nn.ReLU(), RAISES)(x * 2)


def logged_in_a_layer(x):
    try:
        return RAISES(x * 2)
    except ValueError as error:
        return [(frame.name, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]


WARNS_BY_OBJECT, RAISES = WarnsByObject(), Raises()


@pytest.mark.parametrize("fn", [warned_by_an_object, raised_in_a_layer, logged_in_a_layer], ids=lambda fn: fn.__name__)
def test_tracebacks_and_warnings_at_a_break_have_the_frames_of_libraries(fn):
    def outcome(run):
        with warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter("always")
            try:
                result = run(paddle.ones([2]))
            except ValueError as error:
                # Without the frame of this test.
                result = [(frame.name, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)][1:]
        return described(result), [(w.filename, w.lineno) for w in shown]

    def described(result):
        return result.tolist() if isinstance(result, paddle.Tensor) else result

    fast, expected = sot.symbolic_translate(fn), outcome(fn)
    assert [outcome(fast) for _ in range(3)] == [expected] * 3
    assert sot.stats().translations and not sot.stats().fallbacks


class Numbered(logging.LoggerAdapter):
    def process(self, message, keywords):
        return f"[{self.extra['number']}] {message}", keywords


ADAPTERS = [Numbered(LOGGER, {"number": 1}), logging.LoggerAdapter(LOGGER, {"number": 1})]


def logs_by_way_of_logging(x):
    for adapter in ADAPTERS:
        adapter.error("through an adapter")
        adapter.log(30, "at a level")
    if hasattr(LOGGER, "warn"):
        LOGGER.warn("by the old name")
    return x * 2


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_records_name_no_function_of_logging(same):
    with root_logger() as stream:
        result = logs_by_way_of_logging(paddle.ones([2]))
        expected = stream.getvalue()
    assert expected.count("logs_by_way_of_logging") in (4, 5)
    fast = sot.symbolic_translate(logs_by_way_of_logging)
    for _ in range(3):
        with root_logger() as stream:
            same(fast(paddle.ones([2])), result)
            assert stream.getvalue() == expected
    assert sot.stats().graphs
