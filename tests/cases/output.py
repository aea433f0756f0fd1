"""Output of known values: replayed in order, without a graph break."""

import contextlib
import io
import logging
import re
import sys
import traceback
import warnings

import toy
from cases import given, whole

OUT = io.StringIO()
ITEMS = []
SCALE = 2


def _logger():
    logger = logging.Logger("case", logging.INFO)
    logger.propagate = False
    handler = logging.StreamHandler(OUT)
    handler.setFormatter(logging.Formatter("%(name)s %(levelname)s %(filename)s:%(lineno)d %(funcName)s %(message)s"))
    logger.addHandler(handler)
    return logger


LOGGER = _logger()


def one():
    return (toy.arange(2),)


@whole
@given(one)
def test_print(x):
    print("before", x.shape, 3, sep=", ", end="!\n", flush=True)
    y = x + 1
    print("after")
    return y * 2


@whole
@given(one)
def test_print_to_a_file(x):
    print("one", file=OUT)
    print("two", file=None)
    print("three", file=sys.stdout)
    return x + 1


@whole
@given(one)
def test_what_is_printed_is_what_was(x):
    items = [1]
    print(items)
    items.append(2)
    print(items)
    return x + len(items)


@whole
@given(one, hit=False)
def test_in_order_with_writes(x):
    global SCALE
    print("a", SCALE)
    SCALE += 1
    print("b", SCALE)
    ITEMS.append(SCALE)
    print("c", ITEMS)
    return x * SCALE


class File:
    def __init__(self):
        self.texts = []

    def write(self, text):
        self.texts.append(text)


FILE = File()


@given(one, hit=False)
def test_a_file_of_the_program_is_written_at_once(x):
    y = x + 1
    print("seen", file=FILE)
    return y * len(FILE.texts)


@given(one)
def test_print_with_wrong_options(x):
    y = x + 1
    try:
        print("a", sep=3)
    except TypeError as error:
        return y, str(error)
    return y


@given(one)
def test_print_of_a_tensor(x):
    y = x + 1
    print("y", y.tolist())
    print(y)
    return y * 2


def _report(value):
    print("reported", value)
    return value


@whole
@given(one)
def test_print_in_a_called_function(x):
    return x * _report(3)


@given(one)
def test_print_where_it_raises_later(x):
    print("first")
    y = x + 1
    if y.ndim == 1:
        raise ValueError("now")
    return y


@whole
@given(one)
def test_logger(x):
    LOGGER.debug("hidden %s", 1)
    LOGGER.info("shape %s of %d", x.shape, x.ndim)
    y = x + 1
    LOGGER.warning("plain")
    LOGGER.error("%s and %r", (1, "a"), [2, 3])
    LOGGER.critical("last")
    LOGGER.log(logging.INFO, "by level")
    return y * 2


@whole
@given(one)
def test_log_is_what_was(x):
    items, table = [1, 2], {"a": 3}
    LOGGER.info("items %s of %r", items, (items, x.ndim))
    LOGGER.info("a is %(a)d", table)
    items.append(4)
    table["a"] = 5
    return x + len(items) + table["a"]


@given(one)
def test_a_log_message_that_does_not_format(x):
    y = x + 1
    LOGGER.info("too %s few %s", [1])
    return y


def _log(value):
    LOGGER.info("inner")
    LOGGER.info("of the caller", stacklevel=2)
    return value


@whole
@given(one)
def test_logger_in_a_called_function(x):
    y = x * _log(3)
    return y + 1


@whole
@given(one)
def test_log_is_in_order_with_print(x):
    print("a", file=OUT)
    LOGGER.info("b")
    print("c", file=OUT)
    return x + 1


@given(one)
def test_logger_of_a_tensor(x):
    y = x + 1
    LOGGER.info("y is %s", y.tolist())
    LOGGER.info("y is %s", y)
    return y * 2


@given(one)
def test_logger_with_an_exception(x):
    y = x + 1
    try:
        raise ValueError("bad")
    except ValueError:
        LOGGER.error("caught", exc_info=False)
    return y


def _fails(value):
    raise ValueError("bad", value)


@whole
@given(one)
def test_logger_with_a_traceback(x):
    y = x + 1
    for value in range(2):
        try:
            _fails(value)
        except ValueError as error:
            LOGGER.exception("failed %d: %s", value, error)
            LOGGER.error("again", exc_info=True)
            LOGGER.warning("given", exc_info=error)
            LOGGER.info("not told", exc_info=False)
            LOGGER.exception("not told either", exc_info=None)
            LOGGER.debug("hidden", exc_info=True)
    LOGGER.error("nothing is handled", exc_info=True)
    return y


@whole
@given(one)
def test_logger_with_a_chain(x):
    try:
        try:
            _fails(1)
        except ValueError as error:
            raise KeyError("later") from error
    except KeyError:
        LOGGER.log(logging.ERROR, "failed", exc_info=True)
    return x + 1


@given(one)
def test_logger_with_a_given_triple(x):
    try:
        _fails(1)
    except ValueError:
        LOGGER.error("failed", exc_info=sys.exc_info())
    return x + 1


@given(one, hit=False)
def test_a_handler_of_the_program_sees_a_traceback(x):
    try:
        _fails(1)
    except ValueError:
        OWN.exception("failed")
    return x + 1, KEEPING.kept[-1]


class Keeping(logging.Handler):
    def __init__(self):
        super().__init__()
        self.kept = []

    def emit(self, record):
        self.kept.append(record.getMessage())


KEEPING = Keeping()
OWN = logging.Logger("own")
OWN.addHandler(KEEPING)


@given(one, hit=False)
def test_a_handler_of_the_program_sees_at_once(x):
    y = x + 1
    OWN.warning("seen %s", 1)
    return y * len(KEEPING.kept)


class Louder(logging.Logger):
    def makeRecord(self, name, level, fn, lno, msg, *rest, **more):
        return super().makeRecord(name, level, fn, lno, str(msg).upper(), *rest, **more)


LOUD = Louder("loud")
LOUD.addHandler(LOGGER.handlers[0])


@given(one)
def test_a_logger_of_the_program(x):
    y = x + 1
    LOUD.warning("seen")
    return y


@whole
@given(one)
def test_warning(x):
    warnings.warn("old")
    y = x + 1
    warnings.warn("older", FutureWarning)
    return y * 2


def _old(x):
    warnings.warn("inner")
    warnings.warn("of the caller", FutureWarning, stacklevel=2)
    return x * 2


@whole
@given(one)
def test_warning_in_a_called_function(x):
    y = _old(x)
    return y + 1


def warned_anew():
    re.purge()
    return one()


# A pattern with a warning for who compiles it.
@given(warned_anew)
def test_an_operation_that_warns(x):
    y = x + 1
    found = re.findall("[[a]", "[a]")
    pattern = re.compile("[[b]")
    return y * len(found), pattern.pattern


@given(one)
def test_warning_of_the_callers_caller(x):
    y = x + 1
    warnings.warn("far", stacklevel=2)
    return y * 2


@given(one)
def test_a_warning_that_raises_is_caught(x):
    warnings.simplefilter("error", UserWarning)
    y = x + 1
    try:
        warnings.warn("raised")
    except UserWarning as error:
        return y * 2, str(error)
    return y


@given(one)
def test_a_warning_that_raises(x):
    y = x + 1
    print("before")
    warnings.warn("raised", ValueErrorWarning)
    print("after")
    return y


class ValueErrorWarning(UserWarning):
    pass


@given(one)
def test_warnings_recorded_in_the_function(x):
    y = x + 1
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        warnings.warn("one")
        count = len(seen)
    return y * count


def numbers():
    return [(lambda n=n: (toy.arange(2), n)) for n in (1.5, 2.5, 3.5, 4.5)]


@given(*numbers())
def test_print_of_numbers_that_differ(x, n):
    print("n is", n)
    print(f"{n:.2f} and {n!r} and {n} of {x.ndim}")
    LOGGER.info("n is %s", n)
    LOGGER.info(f"n is {n}")
    return x * 2


@given(*numbers())
def test_numbers_that_differ_as_texts(x, n):
    text = f"{n}" + str(n + 1) + format(n, "5.1f") + repr(abs(n))
    return x * 2, text, len(text)


@given(lambda: (toy.arange(2), 65), lambda: (toy.arange(2), 66), lambda: (toy.arange(2), -1), lambda: (toy.arange(2), 67))
def test_numbers_that_do_not_all_format(x, n):
    try:
        text = f"{n:c}"
    except OverflowError as error:
        text = str(error)
    return x * 2, text


@given(lambda: (toy.arange(2), 1), lambda: (toy.arange(2), 2), lambda: (toy.arange(2), "3"), lambda: (toy.arange(2), True))
def test_numbers_that_become_something_else(x, n):
    print(f"<{n}>")
    return x * 2


@given(lambda: (toy.arange(2), "a"), lambda: (toy.arange(2), 5), lambda: (toy.arange(2), 6), lambda: (toy.arange(2), 7.5))
def test_a_text_that_becomes_a_number(x, s):
    return x * 2, f"{s}"


@given(one)
def test_printed_to_a_text_in_memory(x):
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        print("in memory", 1)
        print("as well", file=None)
    print("outside")
    return x + len(text.getvalue()), text.getvalue()


# Whom a warning or a message is for that names a caller: the frame that waits for the code behind a break is none of its own.


def _for_the_caller(x, level):
    warnings.warn("for the caller", stacklevel=level)
    print(x)
    warnings.warn("and behind", stacklevel=level)
    return x + 1


@given(one)
def test_warning_for_a_caller(x):
    return _for_the_caller(x, 2)


@given(one)
def test_warning_for_the_caller_of_the_function(x):
    y = _for_the_caller(x, 3)
    print(y)
    warnings.warn("for another", stacklevel=2)
    return y * 2


@whole
@given(one)
def test_warning_for_the_caller_of_the_function_in_one(x):
    warnings.warn("for another", stacklevel=2)
    return x + 1


@given(one)
def test_message_for_the_caller_of_the_function(x):
    print(x)
    where = io.StringIO()
    handler = logging.StreamHandler(where)
    handler.setFormatter(logging.Formatter("%(filename)s:%(lineno)d %(funcName)s %(message)s"))
    logger = logging.Logger("callers")
    logger.addHandler(handler)
    print(x)
    logger.warning("for another", stacklevel=2)
    logger.warning("for one beyond all", stacklevel=1000)
    y = x + 1
    print(y)
    return y, where.getvalue()


# What asks natively, behind a break, for the frames of its callers: the frame that waits is not among them.


def _names_of_callers(count):
    frame, names = sys._getframe(1), []
    while frame is not None and len(names) < count:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    return names


def _warns_in_a_try(x, level):
    print(x)
    try:
        warnings.warn("in a try", stacklevel=level)
    except UserWarning as warning:
        print(warning)
    return x + 1


@given(one)
def test_warning_in_a_try_behind_a_break(x):
    y = _warns_in_a_try(x, 2)
    print(y)
    try:
        warnings.warn("again", stacklevel=2)
    finally:
        y = _warns_in_a_try(y, 3)
    return y


def _asks(x):
    print(x)
    names = _names_of_callers(3)
    print(x + 1)
    return names, _names_of_callers(3)


def _asks_in_a_loop(x):
    names = []
    for _ in range(3):
        print(x)
        names.append(_names_of_callers(2))
        x = x + 1
    return names, x


def _raises(x):
    print(x)
    try:
        print(x + 1)
        raise ValueError(_names_of_callers(2))
    finally:
        print(_names_of_callers(2))


def _text(error):
    return [(entry.name, entry.lineno, entry.line) for entry in traceback.extract_tb(error.__traceback__)][1:]


@given(one)
def test_callers_behind_a_break(x):
    print(x)
    return _asks(x), _asks_in_a_loop(x), _names_of_callers(1)


@given(one)
def test_callers_and_traceback_of_what_is_raised_behind_a_break(x):
    try:
        _raises(x)
    except ValueError as error:
        print(x)
        return str(error), _text(error), _names_of_callers(1)


def _depths(x, n):
    print(x)
    if n == 0:
        return _names_of_callers(9)
    return _depths(x + 1, n - 1)


@given(one)
def test_callers_in_a_recursion_with_breaks(x):
    return _depths(x, 4)


def _yields(x):
    print(x)
    yield _names_of_callers(2)
    print(x + 1)
    yield _names_of_callers(2)


@given(one)
def test_callers_of_a_generator_with_breaks(x):
    print(x)
    steps = _yields(x)
    first = next(steps)
    print(x)
    return first, list(steps)


def _keeps_frame(x):
    print(x)
    return sys._getframe(), x + 1


@given(one)
def test_a_frame_kept_behind_a_break(x):
    frame, y = _keeps_frame(x)
    return frame.f_code.co_name, frame.f_back and frame.f_back.f_code.co_name, frame.f_locals["x"] is x, y


@given(one)
def test_lines_of_callers_behind_a_break(x):
    print(x)
    frames = traceback.extract_stack()[-1:]
    print(x)
    frames += traceback.extract_stack()[-1:]
    return [(frame.name, frame.lineno) for frame in frames], x + 1


@given(one)
def test_profiled_behind_a_break(x):
    seen = []
    print(x)
    sys.setprofile(lambda frame, event, arg: seen.append((event, frame.f_code.co_name)))
    try:
        y = _asks_in_a_loop(x)
        print(x)
    finally:
        sys.setprofile(None)
    return y
