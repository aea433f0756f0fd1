"""What exceptions say of themselves, and how they come through handlers."""

import contextlib
import copy
import functools
import pickle
import traceback
import types
import warnings


class Plain(Exception):
    pass


class Coded(Exception):
    def __init__(self, code):
        self.code = code

    def __str__(self):
        return f"code {self.code}"


class Doubled(Exception):
    def __new__(cls, *args):
        made = super().__new__(cls, *args)
        made.double = args * 2
        return made


class Slotted(Exception):
    __slots__ = ("code",)

    def __init__(self, code):
        super().__init__(code, "more")
        self.code = code


class Both(KeyError, AttributeError):
    pass


class Meta(type):
    def __call__(cls, *args):
        made = super().__call__(*args)
        made.via = cls.__name__
        return made


class Metaclassed(Exception, metaclass=Meta):
    pass


class Reduced(Exception):
    def __init__(self, a, b):
        super().__init__(a)
        self.b = b

    def __reduce__(self):
        return Reduced, (self.args[0], self.b)


class Missing(KeyError):
    def __missing__(self, key):
        return key


class Refused(OSError):
    pass


def _only(e):
    return traceback.format_exception_only(type(e), e)


def _raise(e):
    raise e


def text_of_one_with_a_cause(x):
    try:
        try:
            raise KeyError("k")
        except KeyError as k:
            raise Coded(3) from k
    except Coded as e:
        return x + 1, _only(e), _only(e.__cause__)


def text_of_one_not_raised(x):
    return x + 1, _only(Coded(1)), _only(ValueError("v")), traceback.format_exception_only(None, None)


def text_of_builtin_ones(x):
    texts = []
    for make in (lambda: 1 // 0, lambda: [][1], lambda: {}["k"], lambda: 1 + "a", lambda: int("z"), lambda: _raise(OSError(2, "gone", "f"))):
        try:
            make()
        except Exception as e:
            texts += _only(e)
    return x + 1, texts


def text_of_a_syntax_error(x):
    try:
        raise SyntaxError("wrong", ("file", 3, 2, "a b c"))
    except SyntaxError as e:
        return x + 1, _only(e), e.lineno, e.offset, e.text, e.msg


def text_of_one_that_fails_to_say(x):
    class Mute(Exception):
        def __str__(self):
            raise ValueError

    try:
        raise Mute(1)
    except Mute as e:
        return x + 1, _only(e)


def with_slots(x):
    try:
        raise Slotted(7)
    except Slotted as e:
        e.more = 3
        return x + e.code, e.args, e.more


def of_two_families(x):
    caught = []
    for kind in (KeyError, AttributeError, LookupError):
        try:
            raise Both("k")
        except kind as e:
            caught.append((kind.__name__, str(e), e.args))
    return x + 1, caught


def of_a_metaclass(x):
    try:
        raise Metaclassed(1)
    except Metaclassed as e:
        return x + 1, e.via, e.args


def as_keys(x):
    a, b = Plain(1), Plain(1)
    found = {a: 1, b: 2}
    return x + found[a], found[b], len({a, b, a}), a in found, hash(a) == hash(a)


def caught_by_a_computed_tuple(x):
    kinds = tuple(getattr(__builtins__, n) if not isinstance(__builtins__, dict) else __builtins__[n] for n in ("KeyError", "ValueError"))
    seen = []
    for e in (KeyError(1), ValueError(2)):
        try:
            raise e
        except kinds as caught:
            seen.append(caught.args)
    for e in (KeyError(1),):
        try:
            raise e
        except kinds + (TypeError, (OSError)) as caught:
            seen.append(caught.args)
    return x + 1, seen


def caught_by_no_class(x):
    try:
        try:
            raise KeyError(1)
        except "text":
            pass
    except TypeError as e:
        return x + 1, str(e), e.__context__.args


class Swallows:
    def __init__(self, log, kinds=(Exception,)):
        self.log = log
        self.kinds = kinds

    def __enter__(self):
        return self

    def __exit__(self, kind, value, tb):
        self.log.append((kind and kind.__name__, value and value.args, tb is None))
        return kind is not None and issubclass(kind, self.kinds)


class Replaces:
    def __enter__(self):
        return self

    def __exit__(self, kind, value, tb):
        raise Plain("replaced") from value


def swallowed(x):
    log = []
    with Swallows(log):
        raise KeyError(1)
    with Swallows(log):
        log.append("no")
    try:
        with Swallows(log, (OSError,)):
            raise KeyError(2)
    except KeyError as e:
        log.append(e.args)
    return x + 1, log


def replaced(x):
    try:
        with Replaces():
            raise KeyError("k")
    except Plain as e:
        return x + 1, e.args, e.__cause__.args, e.__context__ is e.__cause__


def exit_stack(x):
    log = []

    def callback(n, fail=False):
        log.append(n)
        if fail:
            raise Plain(n)

    try:
        with contextlib.ExitStack() as stack:
            stack.callback(callback, 1)
            stack.callback(callback, 2, fail=True)
            stack.callback(callback, 3, fail=True)
            stack.enter_context(Swallows(log, (OSError,)))
            raise KeyError("k")
    except Plain as e:
        log.append((e.args, e.__context__.args, e.__context__.__context__.args))
    return x + 1, log


def exit_stack_swallows(x):
    log = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(Swallows(log))
        stack.push(lambda *details: log.append(details[0].__name__))
        raise KeyError("k")
    return x + 1, log


def suppressed(x):
    out = []
    with contextlib.suppress(KeyError, ValueError):
        out.append(1)
        {}["k"]
        out.append(2)
    with contextlib.suppress(OSError):
        raise FileNotFoundError(2, "gone")
    return x + 1, out


def context_manager_of_a_generator(x):
    log = []

    @contextlib.contextmanager
    def managed(swallow):
        try:
            yield 1
        except KeyError as e:
            log.append(e.args)
            if not swallow:
                raise Plain("new") from e
        finally:
            log.append("out")

    with managed(True):
        raise KeyError(1)
    try:
        with managed(False):
            raise KeyError(2)
    except Plain as e:
        log.append((e.args, e.__cause__.args))
    try:
        with managed(True):
            raise OSError(3)
    except OSError as e:
        log.append(e.args)
    return x + 1, log


def thrown_into_a_chain(x):
    log = []

    def inner():
        try:
            while True:
                try:
                    yield len(log)
                except KeyError as e:
                    log.append(("inner", e.args))
        finally:
            log.append("inner closed")

    def outer():
        try:
            yield from inner()
        except ValueError as e:
            log.append(("outer", e.args))
            yield "caught"
        finally:
            log.append("outer closed")

    g = outer()
    out = [next(g), g.throw(KeyError("k")), g.throw(ValueError("v"))]
    g.close()
    h = outer()
    next(h)
    h.close()
    h.close()
    try:
        h.throw(KeyError("late"))
    except KeyError as e:
        log.append(e.args)
    return x + 1, out, log


def generator_ignores_exit(x):
    def g():
        try:
            yield 1
        except GeneratorExit:
            yield 2

    it = g()
    next(it)
    try:
        it.close()
    except RuntimeError as e:
        return x + 1, str(e)


def stop_iteration_in_a_generator(x):
    def g():
        yield 1
        raise StopIteration(3)

    try:
        list(g())
    except RuntimeError as e:
        return x + 1, str(e), type(e.__cause__).__name__, e.__cause__.value


def finally_overrides(x):
    def returned():
        try:
            raise KeyError
        finally:
            return "returned"

    def broken():
        for _ in range(3):
            try:
                raise KeyError
            finally:
                break
        return "broken"

    def gone_on():
        n = 0
        for _ in range(3):
            try:
                try:
                    return "no"
                finally:
                    n += 1
                    raise KeyError
            except KeyError:
                continue
            finally:
                n += 10
        return n

    def nested():
        try:
            try:
                return 1
            finally:
                try:
                    raise ValueError
                except ValueError:
                    pass
        finally:
            return 2

    return x + 1, returned(), broken(), gone_on(), nested()


def raise_without_active(x):
    try:
        raise
    except RuntimeError as e:
        return x + 1, e.args


def name_is_deleted(x):
    e = 1
    try:
        raise KeyError("k")
    except KeyError as e:
        pass
    try:
        e
    except UnboundLocalError as error:
        return x + 1, type(error).__name__, "e" in locals()


def cycle_of_contexts(x):
    a, b = Plain("a"), Plain("b")
    try:
        try:
            raise a
        except Plain:
            raise b
    except Plain as e:
        try:
            raise a
        except Plain as again:
            return x + 1, again.args, again.__context__.args, again.__context__.__context__ is None, e.args


def reraised_deeply(x):
    def again(n):
        try:
            if n == 0:
                raise KeyError("deep")
            again(n - 1)
        except KeyError:
            if n % 2:
                raise
            raise Plain(n)
        except Plain as e:
            raise KeyError(e.args[0]) from e

    chain = []
    try:
        again(4)
    except Exception as e:
        while e is not None:
            chain.append((type(e).__name__, e.args, e.__suppress_context__))
            e = e.__context__
    return x + 1, chain


def assertions(x):
    out = []
    for n in range(2):
        try:
            assert n, ("not", n)
            assert not n
        except AssertionError as e:
            out.append((e.args, str(e)))
    return x + 1, out


def attributes_in_c(x):
    out = []
    for e in (OSError(2, "gone", "a", None, "b"), OSError("one"), FileNotFoundError(1, "no"), Refused(13, "refused", "f")):
        try:
            raise e
        except OSError as c:
            out.append((type(c).__name__, c.errno, c.strerror, c.filename, c.filename2, c.args, str(c)))
    try:
        b"\xff".decode("utf-8")
    except UnicodeDecodeError as c:
        out.append((c.start, c.end, c.reason, c.encoding, c.object, str(c)))
    try:
        "\u20ac".encode("ascii")
    except UnicodeEncodeError as c:
        out.append((c.start, c.end, c.reason, c.encoding, c.object, str(c)))
    return x + 1, out


def exit_codes(x):
    codes = []
    for args in ((), (3,), (None,), (1, 2)):
        try:
            raise SystemExit(*args)
        except SystemExit as e:
            codes.append(e.code)
    return x + 1, codes


def values_of_stop_iteration(x):
    values = []
    for args in ((), (3,), (1, 2)):
        try:
            raise StopIteration(*args)
        except StopIteration as e:
            values.append((e.value, e.args))
    return x + 1, values


def warned(x):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn("first")
        warnings.warn("second", DeprecationWarning)
    return x + len(caught), [(str(w.message), w.category.__name__) for w in caught]


def warning_as_an_error(x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            warnings.warn("wrong", UserWarning)
        except UserWarning as e:
            return x + 1, str(e), e.args


def dict_of_an_exception(x):
    e = Coded(3)
    e.more = 4
    return x + 1, e.__dict__, vars(e), sorted(e.__dict__), hasattr(e, "none")


def raised_from_no_exception(x):
    out = []
    for cause in (3, None, KeyError, KeyError("k")):
        try:
            raise Plain("p") from cause
        except (Plain, TypeError) as e:
            out.append((str(e), repr(e.__cause__), e.__suppress_context__))
    return x + 1, out


def raised_no_exception(x):
    out = []
    for what in (3, "text", int):
        try:
            raise what
        except TypeError as e:
            out.append(str(e))
    return x + 1, out


def raised_by_callbacks(x):
    def key(n):
        if n == 2:
            raise Plain(n)
        return n

    out = []
    for work in (lambda: sorted([1, 2], key=key), lambda: list(map(key, [1, 2])), lambda: max([2, 1], key=key), lambda: [key(n) for n in (1, 2)]):
        try:
            work()
        except Plain as e:
            out.append(e.args)
    return x + 1, out


def text_of_ones_own(x):
    texts = []
    for e in (Plain(), Plain("a"), Plain(1, 2), Coded(4), Slotted(1)):
        try:
            raise e
        except Exception as caught:
            texts += _only(caught)
    return x + 1, texts


def made_in_its_own_new(x):
    try:
        raise Doubled(1, "b")
    except Doubled as e:
        return x + 1, e.args, e.double


def copied(x):
    e = Reduced(1, 2)
    c = copy.copy(e)
    p = Plain(1, 2)
    p.more = 3
    q = copy.copy(p)
    return x + c.b, c.args, q.args, q.more, type(q).__name__, q is p


def deeply_copied(x):
    p = Plain([1], 2)
    q = copy.deepcopy(p)
    return x + 1, q.args, q.args[0] is p.args[0]


def reduced(x):
    p = Plain(1, 2)
    r = p.__reduce__()
    p.more = 3
    s = p.__reduce__()
    s = (s[0], s[1], dict(s[2]))
    del p.more
    return x + 1, r[0] is Plain, r[1:], s[1:], p.__reduce__()[2:]


def set_state(x):
    e = Plain()
    e.__setstate__({"a": 1, "b": 2})
    return x + e.a, e.b


def callables_that_are_none(x):
    caught = []
    calls = [lambda: functools.partial(5, 1), lambda: types.MethodType(5, 1), lambda: types.MethodType(len, None)]
    for make in [*calls, lambda: callable(5)]:
        try:
            caught.append(make())
        except TypeError as error:
            caught.append(str(error))
    return x + 1, caught
