"""Programs with `try` and `with` as they are written: retries, fallbacks, contexts that clean up."""

import contextlib
import functools
import json
import io
import os
import re
import sys
import warnings


class Failure(Exception):
    def __init__(self, code, *, hint=None):
        super().__init__(f"code={code}")
        self.code = code
        self.hint = hint

    def __str__(self):
        return f"{self.code}:{self.hint}"


class Context:
    def __init__(self, log, swallows):
        self.log, self.swallows = log, swallows

    def __enter__(self):
        self.log.append("in")
        return self

    def __exit__(self, kind, error, traceback):
        self.log.append(kind.__name__ if kind else None)
        return self.swallows


def _retry(times):
    def decorate(function):
        @functools.wraps(function)
        def tried(*args):
            last = None
            for i in range(times):
                try:
                    return function(*args, i)
                except (ValueError, KeyError) as error:
                    last = error
            raise RuntimeError("gave up") from last

        return tried

    return decorate


@_retry(3)
def _late(x, i):
    if i < 2:
        raise ValueError(i)
    return x * i


@_retry(2)
def _never(x, i):
    raise KeyError(i)


def retried(x):
    try:
        _never(x)
    except RuntimeError as e:
        return _late(x) + 1, repr(e.__cause__)


def retried_in_a_loop(x):
    n = 0
    while True:
        try:
            n += 1
            if n < 3:
                raise RuntimeError(n)
            break
        except RuntimeError:
            continue
    return x * n + 1


def contexts_of_ones_own(x):
    log = []
    with Context(log, True):
        x = x * 2
        raise Failure(3, hint="h")
    with Context(log, False):
        x = x + 1
    return x, log


def null_context(x):
    with contextlib.nullcontext(5) as factor:
        x = x * factor
    return x + 1


def returns_and_finally(x):
    def first():
        try:
            try:
                return x * 2
            finally:
                raise ValueError
        except ValueError:
            return x * 3
        finally:
            pass

    def second():
        for i in range(3):
            try:
                if i == 1:
                    return i
            finally:
                if i < 1:
                    continue

    return first() + 1, second()


def errors_with_attributes(x):
    try:
        raise Failure(4)
    except Failure as e:
        return x + 1, e.code, e.hint, str(e), e.args, repr(e)


def errors_through_generators(x):
    def scaled():
        for i in range(3):
            try:
                yield x * i
            except KeyError:
                yield x * 10

    it = scaled()
    return next(it) + it.throw(KeyError("q")) + next(it)


def from_none(x):
    try:
        try:
            {}["a"]
        except KeyError:
            raise AttributeError("no") from None
    except AttributeError as e:
        return x + 1, e.__cause__, e.__suppress_context__, type(e.__context__), str(e)


def assertions_with_texts(x):
    try:
        assert x.ndim == 5, f"ndim {x.ndim} of {len(x)}"
    except AssertionError as e:
        return x + 1, str(e)


def else_and_finally(x):
    try:
        value = int("3")
    except ValueError:
        value = 0
    else:
        value += 1
    finally:
        value *= 2
    return x * value


def in_comprehensions(x):
    try:
        found = [1 / (i - 2) for i in range(4)]
    except ZeroDivisionError as e:
        found = str(e)
    return x + 1, found


def in_sort_keys(x):
    texts = []
    for items, key in (([3, "a", 1], None), ([1, 2], lambda k: k.foo)):
        try:
            texts.append(sorted(items, key=key))
        except (TypeError, AttributeError) as e:
            texts.append(str(e))
    return x + 1, texts


def in_init(x):
    class Positive:
        def __init__(self, value):
            if value < 0:
                raise ValueError(f"neg {value}")
            self.value = value

    try:
        Positive(-1)
    except ValueError as e:
        return x * Positive(2).value, str(e)


def in_properties(x):
    class Hidden:
        @property
        def p(self):
            raise AttributeError("inner")

        def __getattr__(self, name):
            return "instead of " + name

    class Keyed:
        @property
        def p(self):
            raise KeyError("k")

    try:
        Keyed().p
    except KeyError as e:
        return x + 1, Hidden().p, e.args, getattr(Hidden(), "p"), hasattr(Keyed, "p")


def what_is_handled(x):
    try:
        raise ValueError("v")
    except ValueError:
        kind, error, traceback = sys.exc_info()
        return x + 1, kind, str(error), traceback.tb_lineno > 0


def suppressed(x):
    with contextlib.suppress(KeyError, AttributeError) as nothing:
        x = x * 2
        del {}["q"]
        x = x * 5
    return x + 1, nothing


def managers_of_generators(x):
    log = []

    @contextlib.contextmanager
    def manager():
        try:
            yield 2
        except ValueError as e:
            log.append(str(e))
        finally:
            log.append("f")

    with manager() as factor:
        x = x * factor
        raise ValueError("z")
    return x + 1, log


def closed(x):
    class Resource:
        closed = False

        def close(self):
            self.closed = True

    resource = Resource()
    try:
        with contextlib.closing(resource):
            raise OSError(2, "nope")
    except OSError as e:
        return x + 1, resource.closed, e.errno, e.strerror, type(e)


def exit_stacks(x):
    log = []
    with contextlib.ExitStack() as stack:
        stack.callback(log.append, 1)
        stack.push(lambda *error: True)
        raise ValueError
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.suppress(ValueError))
            raise KeyError("a")
    except KeyError as e:
        return x + 1, log, e.args


def chains_of_errors(x):
    texts = []
    try:
        try:
            [][3]
        except IndexError as e:
            raise ValueError("outer") from e
    except ValueError as e:
        while e is not None:
            texts.append(f"{type(e).__name__}: {e}")
            e = e.__cause__ or e.__context__
    return x + 1, texts


def errors_of_calls(x):
    texts = []
    for call in (
        lambda: 1 / 0, lambda: [][1], lambda: {}["a"], lambda: None.x, lambda: int("a"), lambda: "a" + 1,
        lambda: undefined_name, lambda: (lambda a: a)(), lambda: json.loads("{bad"), lambda: re.compile("("),
        lambda: os.environ["NOT_SET_HERE"], lambda: json.dumps({1, 2}),
    ):  # fmt: skip
        try:
            call()
        except Exception as e:
            texts.append((type(e), str(e)))
    return x + 1, texts


def shapes_that_may_not_unpack(x):
    try:
        a, b = x.shape
    except ValueError:
        a, b = x.shape[0], 1
    return x * a + b


def conversions(x):
    found = []
    for value in ["1", "1.5", "x", None]:
        for conversion in (int, float, str):
            try:
                found.append(conversion(value))
                break
            except (ValueError, TypeError):
                continue
    return x + 1, found


def settings_with_defaults(x):
    class Settings:
        rate = 0.5

    settings = Settings()
    try:
        momentum = settings.momentum
    except AttributeError:
        momentum = 0.25
    return x * settings.rate * momentum


def methods_to_override(x):
    class Base:
        def forward(self, x):
            raise NotImplementedError(f"{type(self).__name__}.forward")

    try:
        return Base().forward(x)
    except NotImplementedError as e:
        return x + 1, str(e)


def warnings_as_errors(x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            warnings.warn("w", DeprecationWarning)
        except DeprecationWarning as e:
            return x + 1, str(e)


def stop_iteration_in_generators(x):
    def one():
        yield 1
        raise StopIteration

    try:
        list(one())
    except RuntimeError as e:
        return x + 1, str(e), type(e.__cause__)


def printed_elsewhere(x):
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        print("hi")
    return x + 1, stream.getvalue()
