"""Objects whose death shows, and when it comes."""

import collections
import weakref

import toy
from cases import given, whole

LOG = []


class Dying:
    def __init__(self, name):
        self.name = name

    def __del__(self):
        LOG.append(("dies", self.name))


class Watched:
    pass


def one():
    LOG.clear()
    return (toy.arange(2),)


def fails(name):
    kept = Dying(name)
    raise ValueError(kept.name)


@given(one, hit=False)
def test_kept_by_the_traceback_of_an_exception(x):
    try:
        fails("a")
    except ValueError:
        LOG.append("handled")
    LOG.append("behind")
    return x + 1


@given(one, hit=False)
def test_kept_by_an_exception_that_is_kept(x):
    kept = None
    try:
        fails("a")
    except ValueError as error:
        kept = error
    LOG.append("behind")
    kept = None
    LOG.append("dropped")
    return x + 1


def passes_on(name):
    own = Dying(name + " of the caller")
    fails(name)
    return own


@given(one, hit=False)
def test_kept_by_the_frames_of_a_traceback(x):
    for name in ("a", "b"):
        try:
            passes_on(name)
        except ValueError as error:
            LOG.append(str(error))
        LOG.append("behind")
    return x + 1


@given(one, hit=False)
def test_dropped_by_a_list(x):
    values = [Dying("a"), Dying("b"), Dying("c"), Dying("d")]
    del values[0]
    LOG.append("deleted")
    values.pop()
    LOG.append("popped")
    values[0] = None
    LOG.append("replaced")
    values.clear()
    LOG.append("cleared")
    return x + 1


@given(one, hit=False)
def test_dropped_by_a_dict(x):
    values = {"a": Dying("a"), "b": Dying("b"), "c": Dying("c")}
    values["a"] = 1
    LOG.append("replaced")
    del values["b"]
    LOG.append("deleted")
    values = None
    LOG.append("dropped")
    return x + 1


@given(one, hit=False)
def test_held_twice(x):
    values = [Dying("a"), Dying("b")]
    others = collections.deque(values)
    values.clear()
    LOG.append("cleared")
    others.popleft()
    LOG.append("popped")
    del others
    LOG.append("deleted")
    return x + 1


@given(one, hit=False)
def test_weakly_referred_to_in_a_list(x):
    values = [Watched(), Watched()]
    references = [weakref.ref(value, lambda _: LOG.append("told")) for value in values]
    toy.save(x)
    values.pop()
    LOG.append("popped")
    values = None
    LOG.append("dropped")
    return x + 1, [reference() for reference in references]


@given(one, hit=False)
def test_generators_in_a_list(x):
    def logged(name):
        try:
            yield name
        finally:
            LOG.append(name)

    running = [logged("a"), logged("b")]
    started = [next(generator) for generator in running]
    toy.save(x)
    del running[0]
    LOG.append("deleted")
    running = None
    LOG.append("dropped")
    return x + 1, started


def steps(x):
    try:
        yield x
        yield x * 2
    finally:
        LOG.append("closed")


def begun(x):
    generator = steps(x)
    next(generator)
    return generator


def fails_at_a_break(x, of):
    kept = of(begun(x))
    y = x * 2
    return y + float(y), kept


def fails_behind_a_break(x, of):
    kept = of(begun(x))
    y = x * 2
    toy.save(y)
    return fails_in_a_graph(y), kept


def fails_in_a_graph(x):
    y = x + 1
    raise KeyError(y.ndim)


def passes_through(x, of):
    return fails_behind_a_break(x + 1, of)


@given(one, hit=False)
def test_a_generator_in_a_frame_that_the_breaking_instruction_leaves(x):
    try:
        fails_at_a_break(x, lambda kept: kept)
    except ValueError:
        LOG.append("handled")
    LOG.append("behind")
    return x + 1


@given(one, hit=False)
def test_a_list_in_a_frame_that_the_breaking_instruction_leaves(x):
    try:
        fails_at_a_break(x, lambda kept: [kept, x])
    except ValueError:
        LOG.append("handled")
    LOG.append("behind")
    return x + 1


@given(one, hit=False)
def test_a_generator_in_a_frame_that_a_traceback_keeps(x):
    try:
        passes_through(x, lambda kept: kept)
    except KeyError:
        LOG.append("handled")
    LOG.append("behind")
    return x + 1


@given(one, hit=False)
def test_a_generator_in_a_frame_of_an_exception_that_is_kept(x):
    kept = None
    try:
        fails_at_a_break(x, lambda kept: kept)
    except ValueError as error:
        kept = error
    LOG.append("behind")
    kept = None
    LOG.append("dropped")
    return x + 1


def fails_with_a_finally(x, of):
    kept = of(begun(x))
    y = x * 2
    try:
        return y + float(y), kept
    finally:
        LOG.append("finally")


@given(one, hit=False)
def test_a_generator_in_a_frame_with_a_finally_that_an_exception_leaves(x):
    try:
        fails_with_a_finally(x, lambda kept: kept)
    except ValueError:
        LOG.append("handled")
    LOG.append("behind")
    return x + 1


def caught(x):
    try:
        yield x
        yield x * 2
    except LookupError:
        LOG.append("caught")


def reraising(x):
    try:
        try:
            yield x
        except (KeyError, ValueError) as error:
            LOG.append(str(error))
        except BaseException as error:
            raise
    finally:
        pass


def ending(x):
    try:
        yield x
    except GeneratorExit:
        return


def outer(x, of):
    try:
        result = yield from of(x)
        LOG.append(("result", result))
    except LookupError:
        LOG.append("caught outside")


@whole
@given(one)
def test_generators_that_do_nothing_when_they_die(x):
    y = x
    for of in (caught, reraising, ending):
        generator = of(x)
        y = y + next(generator)
        generator = of(x + 1)
        for value in generator:
            y = y + value
            break
        del generator
        generator = outer(x, of)
        y = y + next(generator)
    return y


@whole
@given(one)
def test_dies_with_the_frame(x):
    LOG.append("begins")
    generator = steps(x)
    y = next(generator) + 1
    LOG.append("behind")
    return y


@whole
@given(one)
def test_dies_with_the_frame_in_a_list(x):
    generators = [steps(x), caught(x)]
    y = next(generators[0]) + next(generators[1])
    LOG.append("behind")
    return y


@whole
@given(one)
def test_several_die_with_the_frame_in_their_order(x):
    def logged(name):
        try:
            yield name
        finally:
            LOG.append(name)

    b, a = logged("b"), logged("a")
    LOG.append((next(a), next(b)))
    return x + 1


@whole
@given(one)
def test_several_die_with_the_frame_in_lists(x):
    def logged(name):
        try:
            yield name
        finally:
            LOG.append(name)

    b, a = [logged("b")], [logged("a"), logged("c")]
    LOG.append([next(generator) for generator in a + b])
    return x + 1


@whole
@given(one)
def test_dies_with_the_frame_that_it_logs_to(x):
    def logged():
        try:
            yield 1
        finally:
            LOG.append(("own", len(own), own is kept))

    kept = own = []
    generator = logged()
    next(generator)
    own.append(2)
    return x + 1, own


@whole
@given(one)
def test_dies_with_a_cell(x):
    def of():
        return next(generator)

    generator = steps(x)
    y = of() + of()
    LOG.append("behind")
    return y


@given(one, hit=False)
def test_dies_in_the_frame(x):
    generator = steps(x)
    y = next(generator)
    generator = None
    LOG.append("behind")
    return y


@given(one, hit=False)
def test_dies_in_a_callee(x):
    def callee():
        generator = steps(x)
        return next(generator)

    y = callee()
    LOG.append("behind")
    return y


KEPT = None


@given(one, hit=False)
def test_a_global_lets_it_go(x):
    global KEPT
    KEPT = steps(x)
    y = next(KEPT)
    KEPT = None
    LOG.append("behind")
    return y


ERROR = LookupError


@given(one, hit=False)
def test_what_it_catches_is_changed_behind_its_death(x):
    def catching():
        try:
            yield x
        except ERROR:
            LOG.append("exit")

    global ERROR
    generator = catching()
    y = next(generator)
    ERROR = GeneratorExit
    generator = None
    LOG.append("behind")
    ERROR = LookupError
    return y


@given(one, hit=False)
def test_the_inner_generator_is_closed_and_lives_on(x):
    inner = scaled(x)
    generator = delegating(inner)
    y = next(generator) + 1
    del generator
    return y, next(inner, "ended")


@given(one, hit=False)
def test_the_inner_generator_is_closed_and_looked_at(x):
    inner = scaled(x)
    generator = delegating(inner)
    y = next(generator) + 1
    del generator
    return y, inner.gi_frame is None


def scaled(x):
    while True:
        yield x
        x = x * 2


def delegating(inner):
    yield from inner


@whole
@given(one)
def test_the_inner_generator_is_not_begun_or_has_ended(x):
    inner = iter([x, 2])
    generator = delegating(inner)
    y = next(generator) + 1
    del generator
    return y, next(inner), next(inner, "ended")


def returns_at_its_end(x):
    try:
        yield x
    except GeneratorExit:
        return 5


def fails_at_its_end(x):
    try:
        yield x
    finally:
        raise KeyError("end")


@whole
@given(one)
def test_close_closes_the_inner_generator_first(x):
    y = x
    for of in (returns_at_its_end, caught, steps, fails_at_its_end):
        generator = outer(x, of)
        y = y + next(generator)
        generator.close()
        LOG.append(list(generator))
    for of in (returns_at_its_end, steps):
        generator = outer(x, of)
        y = y + next(generator)
        try:
            generator.throw(GeneratorExit())
        except GeneratorExit:
            LOG.append("thrown")
    return y


def says_no(x):
    try:
        yield x
    finally:
        yield "no"


@whole
@given(one)
def test_ignores_its_end(x):
    generator = outer(x, says_no)
    return x + next(generator)


def says_what(x):
    try:
        try:
            yield x
        except ValueError as error:
            yield str(error)
    finally:
        yield "no"


def says_what_and_logs(x):
    try:
        yield x
    except ValueError as error:
        try:
            yield str(error)
        finally:
            LOG.append(error.__traceback__ is None)
            yield "no"


@whole
@given(one)
def test_ignores_its_end_while_it_handles_an_exception(x):
    generator = outer(x, says_what)
    y = x + next(generator)
    return y, generator.throw(ValueError("a"))


@given(one, hit=False)
def test_looks_at_the_exception_that_it_handles_when_it_ends(x):
    generator = outer(x, says_what_and_logs)
    y = x + next(generator)
    return y, generator.throw(ValueError("a"))


@given(one, hit=False)
def test_ignores_its_end_in_the_frame(x):
    generator = outer(x, says_no)
    y = x + next(generator)
    generator = None
    LOG.append("behind")
    return y


@given(one, hit=False)
def test_the_outer_one_catches_that_the_inner_one_ignores_its_end(x):
    def catching():
        try:
            yield from says_no(x)
        except RuntimeError:
            return

    generator = catching()
    y = x + next(generator)
    generator = catching()
    return y + next(generator)


@given(one)
def test_an_object_dies_with_the_frame(x):
    kept = Dying("a")
    LOG.append("made")
    kept.name += "b"
    kept.value = x + 1
    LOG.append(kept.name)
    return kept.value


@given(one)
def test_objects_die_with_the_frame_in_their_order(x):
    b = a = None
    c, a, b = [Dying("c")], Dying("a"), Dying("b")
    LOG.append("behind")
    return x + 1


@given(one)
def test_objects_that_hold_others_die_with_the_frame(x):
    a, b = Dying("a"), Dying("b")
    b.other, a.others = a, [Dying("c"), Dying("d")]
    LOG.append("behind")
    return x + 1


class Slotted:
    __slots__ = ("b", "a")


def logged_at_its_end(name):
    try:
        yield name
    finally:
        LOG.append(name)


@whole
@given(one)
def test_what_is_shared_dies_with_the_frame(x):
    def begun(name):
        generator = logged_at_its_end(name)
        next(generator)
        return generator

    last = first = slotted = None
    slotted = Slotted()
    slotted.b, slotted.a = begun("slot b"), [begun("slot a"), begun("with it")]
    first = collections.deque([begun("shared"), begun("first")])
    last = [first, (begun("last"), slotted)]

    def of():
        return cell

    cell = {"own": begun("of the cell"), "first": first[0]}
    LOG.append(of() is cell)
    return x + 1


@given(one)
def test_an_object_that_holds_another_dies_with_the_frame(x):
    outer = Dying("outer")
    outer.inner = Dying("inner")
    LOG.append("behind")
    return x + 1


@whole
@given(one)
def test_returned_and_kept(x):
    LOG.append(Dying("logged"))
    a = Dying("returned")
    return x + 1, a, a.name


@given(one, hit=False)
def test_dies_in_a_callee_or_is_replaced(x):
    def callee(name):
        own = Dying(name)
        return own.name

    LOG.append(callee("a"))
    own = Dying("b")
    LOG.append("behind b")
    own = Dying("c")
    LOG.append("behind c")
    for name in "de":
        own = Dying(name)
    Dying("f")
    LOG.append("behind f")
    return x + 1


@given(one, hit=False)
def test_dies_behind_a_break(x):
    own, other = Dying("a"), Dying("b")
    y = x + 1
    toy.save(y)
    LOG.append("behind the break")
    del own
    LOG.append("behind a")
    return y * 2


class DyingWithLog:
    def __init__(self, log):
        self.log = log

    def __del__(self):
        self.log.append("dies")


# What is seen of an exception that leaves a case is kept until the collector comes: each call has a log of its own.
def with_log():
    return (toy.arange(2), [])


@given(with_log, hit=False)
def test_its_frame_is_left_by_an_exception(x, log):
    own = DyingWithLog(log)
    y = x + 1
    log.append("made")
    raise KeyError(len(own.log))


class DyingError(Exception):
    def __del__(self):
        LOG.append(("dies", str(self)))


@given(one, hit=False)
def test_an_exception_that_runs_code_when_it_dies(x):
    try:
        raise DyingError("a")
    except DyingError as error:
        LOG.append(str(error))
    LOG.append("behind")
    return x + 1


class Odd:
    __slots__ = ("value",)
    missing = property()

    def __init__(self, value=None):
        if value:
            raise ValueError(value)

    def __del__(self):
        LOG.append(("dies", hasattr(self, "value")))


@given(one, hit=False)
def test_errors_of_what_runs_code_when_it_dies(x):
    odd = Odd()
    for read in (lambda: odd.value, lambda: odd.missing, lambda: Odd("a")):
        try:
            read()
        except (AttributeError, ValueError) as error:
            LOG.append(str(error))
    return x + 1


@given(one)
def test_an_empty_slot_of_what_runs_code_when_it_dies(x):
    odd = Odd()
    odd.value = x + 1
    return odd.value


@given(one)
def test_a_class_made_here(x):
    class Own:
        def __del__(self):
            LOG.append(self.name)

    own = Own()
    own.name = "own"
    LOG.append("behind")
    return x + 1


@whole
@given(one)
def test_in_a_class_statement(x):
    own = Dying("own")

    class Holder:
        held = own

    LOG.append(Holder.held is own)
    return x + 1


@given(with_log, hit=False)
def test_generators_and_their_frame_is_left_by_an_exception(x, log):
    def logged():
        try:
            yield x
        finally:
            log.append("closed")

    others = [logged()]
    generator = logged()
    y = next(generator) + next(others[0])
    raise KeyError(y.ndim)


def left_by_an_exception(x):
    own = Dying("own")
    y = x + 1
    raise KeyError(own.name, y.ndim)


@given(one, hit=False)
def test_a_frame_whose_exception_is_kept(x):
    kept = None
    try:
        left_by_an_exception(x)
    except KeyError as error:
        kept = error
    LOG.append("behind")
    kept = None
    LOG.append("dropped")
    return x + 1


def observe(found, o):
    found[id(o)] = weakref.ref(o, lambda _: found.clear())


@given(one)
def test_an_object_whose_id_is_a_key(x):
    found, o = {}, Watched()
    observe(found, o)
    del o
    return x + 1, len(found)


class SlottedKey:
    __slots__ = ("name",)

    def __init__(self, name):
        self.name = name

    def __del__(self):
        LOG.append(("dies", self.name))


class Numbered(int):
    def __del__(self):
        LOG.append(("dies", int(self)))


@given(one, hit=False)
def test_keys_without_weak_references(x):
    toy.save(x)
    found, seen = {SlottedKey("key"): 1}, {SlottedKey("item")}
    toy.save(x)
    y = x + len(found) + len(seen)
    found = seen = None
    LOG.append("behind")
    return y


@given(one, hit=False)
def test_a_sought_key_without_weak_references(x):
    key = SlottedKey("key")
    toy.save(x)
    y = x + {1: 2}.get(key, 1)
    key = None
    LOG.append("behind")
    return y


@given(one, hit=False)
def test_a_number_without_weak_references(x):
    number = Numbered(2)
    toy.save(x)
    y = x + (number + 1)
    number = None
    LOG.append("behind")
    return y


@given(one, hit=False)
def test_a_weak_reference_as_a_key(x):
    o = Watched()
    found = {weakref.ref(o, lambda _: LOG.append("called")): 1}
    toy.save(x)
    y = x + len(found)
    found.clear()
    o = None
    LOG.append("behind")
    return y
