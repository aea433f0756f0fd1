"""Programs in which something is another thing at each call. A program is a function that makes another one, to be called with the number
of the call. `F` stands for a framework and its tracer: `F.translate(function)`, the function `F.relu`, and a tensor `F.x`."""

import collections
import dataclasses
import decimal
import enum
import fractions
import functools
import re
import struct
import threading
import types
import weakref

PROGRAMS = []


def program(make):
    """Registers a program."""
    PROGRAMS.append(make)
    return make


def work(F, x, y=1.0):
    """Tensor work that is worth a graph."""
    return F.relu(x * y + 1.0) + x


# Another class at each call.


@program
def instance_of_a_new_class(F):
    @F.translate
    def f(x, o):
        return work(F, x, o.factor)

    def call(i):
        class C:
            factor = 2.0

        return f(F.x, C())

    return call


@program
def instance_of_a_new_class_with_method(F):
    @F.translate
    def f(x, o):
        return work(F, o.scale(x)) + work(F, x)

    def call(i):
        class C:
            def __init__(self, by):
                self.by = by

            def scale(self, x):
                return x * self.by

        return f(F.x, C(i % 3 + 0.5))

    return call


@program
def a_new_class(F):
    @F.translate
    def f(x, cls):
        return work(F, x, cls.factor) + work(F, x)

    def call(i):
        return f(F.x, type("C", (), {"factor": 2.0}))

    return call


@program
def instance_of_a_new_type_in_closure(F):
    holder = types.SimpleNamespace()

    @F.translate
    def f(x):
        return work(F, x, holder.o.factor)

    def call(i):
        holder.o = type("C", (), {"factor": 2.0})()
        return f(F.x)

    return call


@program
def a_new_class_in_a_dict(F):
    @F.translate
    def f(x, d):
        return work(F, x, d["c"]().factor)

    def call(i):
        return f(F.x, {"c": type("C", (), {"factor": 2.0})})

    return call


@program
def a_new_named_tuple(F):
    @F.translate
    def f(x, pair):
        return work(F, x, pair.a) + pair.b

    def call(i):
        return f(F.x, collections.namedtuple("Pair", "a b")(2.0, 3.0))

    return call


@program
def a_new_dataclass(F):
    @F.translate
    def f(x, options):
        return work(F, x, options.a)

    def call(i):
        return f(F.x, dataclasses.make_dataclass("Options", ["a"])(2.0))

    return call


@program
def a_new_exception_class(F):
    @F.translate
    def f(x, error):
        try:
            raise error("no")
        except error:
            return work(F, x)

    def call(i):
        return f(F.x, type("E", (ValueError,), {}))

    return call


@program
def is_instance_of_a_new_class(F):
    @F.translate
    def f(x, cls):
        return work(F, x) if isinstance(x, cls) else work(F, x, 2.0)

    def call(i):
        return f(F.x, type("C", (), {}))

    return call


@program
def a_class_made_in_the_function(F):
    @F.translate
    def f(x):
        class C:
            factor = 2.0

        return work(F, x, C().factor)

    def call(i):
        return f(F.x)

    return call


# Another function at each call.


@program
def a_new_lambda(F):
    @F.translate
    def f(x, g):
        return work(F, g(x))

    def call(i):
        return f(F.x, lambda v: v * 2.0)

    return call


@program
def a_new_closure_with_another_value(F):
    @F.translate
    def f(x, g):
        return work(F, g(x))

    def call(i):
        by = float(i)
        return f(F.x, lambda v: v * by)

    return call


@program
def a_new_function_by_exec(F):
    @F.translate
    def f(x, g):
        return work(F, g(x))

    def call(i):
        scope = {}
        exec("def g(v):\n    return v * 2.0\n", scope)
        return f(F.x, scope["g"])

    return call


@program
def another_code_by_exec(F):
    @F.translate
    def f(x, g):
        return work(F, g(x))

    def call(i):
        scope = {}
        exec(f"def g(v):\n    return v * {i}.0\n", scope)
        return f(F.x, scope["g"])

    return call


@program
def a_callback_in_a_global(F):
    scope = {"work": work, "F": F}
    exec("def f(x):\n    return work(F, hook(x))\n", scope)
    f = F.translate(scope["f"])

    def call(i):
        scope["hook"] = lambda v: v * 2.0
        return f(F.x)

    return call


@program
def a_callback_in_an_attribute(F):
    class Model:
        @F.translate
        def run(self, x):
            return work(F, self.hook(x))

    model = Model()

    def call(i):
        model.hook = lambda v: v * 2.0
        return model.run(F.x)

    return call


@program
def a_new_partial(F):
    def scale(by, v):
        return v * by

    @F.translate
    def f(x, g):
        return work(F, g(x))

    def call(i):
        return f(F.x, functools.partial(scale, 2.0))

    return call


@program
def a_new_partial_with_another_number(F):
    def scale(by, v):
        return v * by

    @F.translate
    def f(x, g):
        return work(F, g(x))

    def call(i):
        return f(F.x, functools.partial(scale, float(i)))

    return call


@program
def a_bound_method_of_a_new_object(F):
    class Scale:
        def __init__(self, by):
            self.by = by

        def scale(self, v):
            return v * self.by

    @F.translate
    def f(x, g):
        return work(F, g(x))

    def call(i):
        return f(F.x, Scale(2.0).scale)

    return call


@program
def a_default_argument_that_changes(F):
    def scale(v, by=1.0):
        return v * by

    @F.translate
    def f(x):
        return work(F, scale(x))

    def call(i):
        scale.__defaults__ = (float(i),)
        return f(F.x)

    return call


@program
def another_code_of_the_same_function(F):
    @F.translate
    def f(x):
        return work(F, g(x))

    def g(v):
        return v

    def call(i):
        scope = {}
        exec(f"def g(v):\n    return v * {i}.0\n", scope)
        g.__code__ = scope["g"].__code__
        return f(F.x)

    return call


# Objects of types in C that are made anew.


def each_time(name, make, use=None):
    """A program whose function is given what `make` makes of the number of the call, and does with it what `use` does."""
    use = use or (lambda F, x, o: work(F, x) if o is not None else x)

    def made(F):
        @F.translate
        def f(x, o):
            return use(F, x, o)

        def call(i):
            return f(F.x, make(i))

        return call

    made.__name__ = name
    PROGRAMS.append(made)


def by_length(F, x, o):
    return work(F, x, float(len(o)))


def by_items(F, x, o):
    for item in o:
        x = x + item
    return work(F, x)


each_time("a_new_object", lambda i: object())
each_time("a_new_deque", lambda i: collections.deque([1.0, 2.0]), by_items)
each_time("a_new_ordered_dict", lambda i: collections.OrderedDict(a=1.0), lambda F, x, o: work(F, x, o["a"]))
each_time("a_new_default_dict", lambda i: collections.defaultdict(float, a=1.0), lambda F, x, o: work(F, x, o["b"]))
each_time("a_new_counter", lambda i: collections.Counter("abc"), lambda F, x, o: work(F, x, float(o["a"])))
each_time("a_new_chain_map", lambda i: collections.ChainMap({"a": 1.0}), lambda F, x, o: work(F, x, o["a"]))
each_time("a_new_mapping_proxy", lambda i: types.MappingProxyType({"a": 1.0}), lambda F, x, o: work(F, x, o["a"]))
each_time("a_new_namespace", lambda i: types.SimpleNamespace(a=1.0), lambda F, x, o: work(F, x, o.a))
each_time("a_new_bytearray", lambda i: bytearray(b"abc"), by_length)
each_time("a_new_memoryview", lambda i: memoryview(b"abc"), by_length)
each_time("a_new_range", lambda i: range(3), by_items)
each_time("another_range", lambda i: range(i), by_length)
each_time("a_new_slice", lambda i: slice(0, 1), lambda F, x, o: work(F, x[o]))
each_time("a_new_set", lambda i: {1.0, 2.0}, by_items)
each_time("another_set", lambda i: {float(i)}, by_items)
each_time("a_new_frozenset", lambda i: frozenset([i]), lambda F, x, o: work(F, x) if -1 in o else work(F, x, 2.0))
each_time("a_new_list_iterator", lambda i: iter([1.0, 2.0]), by_items)
each_time("a_new_generator", lambda i: (float(n) for n in range(3)), by_items)
each_time("a_new_map", lambda i: map(float, range(3)), by_items)
each_time("a_new_zip", lambda i: zip([1.0], [2.0]), lambda F, x, o: work(F, x, sum(a + b for a, b in o)))
each_time("a_new_lock", lambda i: threading.Lock())
each_time("a_lock_that_is_entered", lambda i: threading.Lock(), lambda F, x, o: locked(F, x, o))
each_time("a_new_module", lambda i: module(i), lambda F, x, o: work(F, x, o.factor))
each_time("a_new_exception", lambda i: ValueError(i), lambda F, x, o: work(F, x, float(len(o.args))))
each_time("a_new_dict_view", lambda i: {"a": 1.0}.values(), by_items)
each_time("a_new_decimal", lambda i: decimal.Decimal(i), lambda F, x, o: work(F, x, float(o)))
each_time("a_new_fraction", lambda i: fractions.Fraction(i, 3), lambda F, x, o: work(F, x, float(o)))
each_time("a_new_thread_local", lambda i: threading.local())
each_time("a_new_property", lambda i: property(lambda self: 1))
each_time("a_new_weak_reference", lambda i: __import__("weakref").ref(type("C", (), {})()))


def locked(F, x, lock):
    with lock:
        return work(F, x)


def module(i):
    made = types.ModuleType("m")
    made.factor = 2.0
    return made


# Another value at each call.


def by_value(F, x, o):
    return work(F, x, 2.0) if o == "none" else work(F, x)


class Color(enum.Enum):
    """Few values."""

    RED = 1
    GREEN = 2


each_time("a_new_string", lambda i: f"text {i}", by_value)
each_time("a_new_string_length", lambda i: f"text {i}", by_length)
each_time("a_new_string_that_is_formatted", lambda i: f"text {i}", lambda F, x, o: (work(F, x), f"<{o}>"))
each_time("a_new_string_as_key", lambda i: f"text {i}", lambda F, x, o: {o: work(F, x)})
each_time("a_new_string_looked_up", lambda i: f"text {i}", lambda F, x, o: work(F, x, {"a": 1.0}.get(o, 2.0)))
each_time("a_new_string_split", lambda i: f"text {i}", lambda F, x, o: work(F, x, float(len(o.split()))))
each_time("a_new_string_prefix", lambda i: f"text {i}", lambda F, x, o: work(F, x) if o.startswith("t") else x)
each_time(
    "texts_that_are_searched",
    lambda i: ("ab", "c", "d1", "efg")[i % 4] + str(i),
    lambda F, x, o: (work(F, x), [match[0] for match in re.compile("[a-z]").finditer(o)]),
)
GROUPS = re.compile("(?P<A>a)|(?P<B>b)")


def match_attributes(F, x, o):
    match = GROUPS.match(o)
    kind = match.lastgroup
    return work(F, x), kind, match.string, match.group()


def pattern_attributes(F, x, o):
    pattern = re.compile(o)
    text = pattern.pattern
    return work(F, x), text, pattern.sub("-", "aabb")


def struct_attributes(F, x, o):
    layout = struct.Struct(o)
    size = layout.size
    return work(F, x), size, layout.pack(b"a"), layout.format


each_time("a_new_match", lambda i: "aabbab"[i % 6] + "a" * (i % 7), match_attributes)
each_time("a_new_pattern", lambda i: "ab"[i % 2] * (i % 5 + 1), pattern_attributes)
each_time("a_new_struct", lambda i: f"{i % 9 + 1}s", struct_attributes)
each_time("new_bytes", lambda i: b"%d" % i, lambda F, x, o: work(F, x) if o == b"a" else work(F, x, 2.0))
each_time("a_new_int", lambda i: i + 1000, lambda F, x, o: work(F, x, o))
each_time("a_new_int_compared", lambda i: i + 1000, lambda F, x, o: work(F, x) if o % 3 == 1 else work(F, x, 2.0))
each_time("a_new_int_formatted", lambda i: i + 1000, lambda F, x, o: (work(F, x), str(o), f"{o:05d}"))
each_time("a_new_int_as_key", lambda i: i + 1000, lambda F, x, o: {o: work(F, x)})
each_time("a_new_int_in_range", lambda i: i, lambda F, x, o: work(F, x, float(sum(range(o)))))
each_time("a_new_int_bits", lambda i: i + 1000, lambda F, x, o: work(F, x, float(o.bit_length())))
each_time("a_new_float", lambda i: i / 7, lambda F, x, o: work(F, x, o))
each_time("a_new_float_rounded", lambda i: i / 7, lambda F, x, o: work(F, x, float(round(o))))
each_time("a_new_float_as_text", lambda i: i / 7, lambda F, x, o: (work(F, x), str(o), f"{o:.2f}"))
each_time("a_new_complex", lambda i: complex(i, 1), lambda F, x, o: work(F, x, o.imag))
each_time("a_new_tuple", lambda i: (i, 2.0), lambda F, x, o: work(F, x, o[1]))
each_time("a_new_tuple_of_numbers", lambda i: (i, i + 0.5), lambda F, x, o: work(F, x, o[0] + o[1]))
each_time("a_new_tuple_length", lambda i: (1.0,) * i, lambda F, x, o: work(F, x, float(len(o))))
each_time("a_new_tuple_compared", lambda i: (i, i), lambda F, x, o: work(F, x) if o == (0, 1) else work(F, x, 2.0))
each_time("a_new_list_length", lambda i: [1.0] * i, lambda F, x, o: work(F, x, float(len(o))))
each_time("a_new_list_iterated", lambda i: [1.0] * i, by_items)
each_time("a_list_of_other_numbers", lambda i: [float(i), i + 1.0], by_items)
each_time("a_list_of_strings", lambda i: [f"a{i}", f"b{i}"], lambda F, x, o: work(F, x, float(len("".join(o)))))
each_time("a_list_in_a_list", lambda i: [[i], [i + 1]], lambda F, x, o: work(F, x, float(o[1][0])))
each_time("new_dict_keys", lambda i: {f"key {i}": 1.0}, lambda F, x, o: work(F, x, sum(o.values())))
each_time("new_dict_keys_asked", lambda i: {f"key {i}": 1.0}, lambda F, x, o: work(F, x) if "a" in o else x * 2.0)
each_time("new_dict_values", lambda i: {"a": float(i)}, lambda F, x, o: work(F, x, o["a"]))
each_time("new_dict_texts", lambda i: {"a": f"t{i}"}, lambda F, x, o: (work(F, x), o["a"] + "!"))
each_time("new_keywords", lambda i: {f"key{i}": 1.0}, lambda F, x, o: work(F, x, total(**o)))
each_time("a_new_enum_class", lambda i: enum.Enum("E", "A B").A, lambda F, x, o: work(F, x, float(o.value)))
each_time("an_enum_member", lambda i: list(Color)[i % 2], lambda F, x, o: work(F, x, float(o.value)))
each_time("a_new_attribute_name", lambda i: types.SimpleNamespace(**{f"a{i}": 1.0}), lambda F, x, o: work(F, x, sum(vars(o).values())))


def total(**numbers):
    return sum(numbers.values())


@program
def a_counter_of_calls(F):
    class Model:
        calls = 0

        @F.translate
        def run(self, x):
            self.calls += 1
            return work(F, x)

    model = Model()
    return lambda i: (model.run(F.x), model.calls)


@program
def a_counter_that_is_printed(F):
    class Model:
        calls = 0

        @F.translate
        def run(self, x):
            self.calls += 1
            self.text = f"call {self.calls}"
            return work(F, x)

    model = Model()
    return lambda i: (model.run(F.x), model.text)


@program
def a_counter_that_decides(F):
    class Model:
        calls = 0

        @F.translate
        def run(self, x):
            self.calls += 1
            if self.calls % 10 == 0:
                x = x * 2.0
            return work(F, x)

    model = Model()
    return lambda i: model.run(F.x)


@program
def a_counter_as_a_factor(F):
    class Model:
        calls = 0

        @F.translate
        def run(self, x):
            self.calls += 1
            return work(F, x, self.calls / 100)

    model = Model()
    return lambda i: model.run(F.x)


@program
def a_global_number(F):
    scope = {"work": work, "F": F}
    exec("def f(x):\n    return work(F, x, n)\n", scope)
    f = F.translate(scope["f"])

    def call(i):
        scope["n"] = i
        return f(F.x)

    return call


@program
def a_global_that_comes_and_goes(F):
    scope = {"work": work, "F": F}
    exec("def f(x):\n    return work(F, x) if 'n' in globals() else x * 2.0\n", scope)
    f = F.translate(scope["f"])

    def call(i):
        if i % 2:
            scope["n"] = i
        else:
            scope.pop("n", None)
        return f(F.x)

    return call


@program
def new_globals(F):
    scope = {"work": work, "F": F}
    exec("def f(x):\n    return work(F, x)\n", scope)
    f = F.translate(scope["f"])

    def call(i):
        scope[f"name {i}"] = i
        return f(F.x)

    return call


@program
def a_list_that_grows(F):
    history = []

    @F.translate
    def f(x):
        history.append(len(history))
        return work(F, x)

    return lambda i: (f(F.x), len(history))


@program
def a_list_that_grows_and_is_summed(F):
    history = []

    @F.translate
    def f(x):
        history.append(1.0)
        return work(F, x, sum(history))

    return lambda i: f(F.x)


@program
def a_dict_that_grows(F):
    cache = {}

    @F.translate
    def f(x, key):
        if key not in cache:
            cache[key] = len(cache)
        return work(F, x, float(cache[key]))

    return lambda i: f(F.x, i)


@program
def a_deque_that_rolls(F):
    window = collections.deque([0.0] * 4, maxlen=4)

    @F.translate
    def f(x):
        window.append(window[-1] + 1.0)
        return work(F, x, sum(window))

    return lambda i: f(F.x)


@program
def a_deque_that_shrinks(F):
    window = collections.deque(range(5000))

    @F.translate
    def f(x):
        window.popleft()
        return work(F, x)

    return lambda i: f(F.x)


@program
def a_big_list_that_changes(F):
    table = [0.0] * 2000

    @F.translate
    def f(x, at):
        table[at] += 1.0
        return work(F, x, max(table))

    return lambda i: f(F.x, i % 7)


@program
def a_stack_that_is_popped(F):
    stack = list(range(2000))

    @F.translate
    def f(x):
        stack.pop()
        return work(F, x)

    return lambda i: (f(F.x), len(stack))


@program
def an_iterator_that_goes_on(F):
    numbers = iter(range(10**6))

    @F.translate
    def f(x):
        return work(F, x, float(next(numbers)))

    return lambda i: f(F.x)


@program
def a_generator_that_goes_on(F):
    numbers = (float(n) for n in range(10**6))

    @F.translate
    def f(x):
        return work(F, x, next(numbers))

    return lambda i: f(F.x)


@program
def a_count(F):
    import itertools

    numbers = itertools.count()

    @F.translate
    def f(x):
        return work(F, x, float(next(numbers)))

    return lambda i: f(F.x)


@program
def an_attribute_set_to_a_new_object(F):
    class Model:
        last = None

        @F.translate
        def run(self, x):
            self.last = object()
            return work(F, x)

    model = Model()
    return lambda i: model.run(F.x)


@program
def an_attribute_of_the_class(F):
    class Model:
        factor = 1.0

        @F.translate
        def run(self, x):
            return work(F, x, self.factor)

    model = Model()

    def call(i):
        Model.factor = float(i)
        return model.run(F.x)

    return call


@program
def a_method_put_on_the_class(F):
    class Model:
        @F.translate
        def run(self, x):
            return work(F, self.scale(x))

    model = Model()

    def call(i):
        Model.scale = lambda self, x: x * 2.0
        return model.run(F.x)

    return call


@program
def a_method_put_on_and_taken_off(F):
    class Base:
        def scale(self, x):
            return x

    class Model(Base):
        @F.translate
        def run(self, x):
            return work(F, self.scale(x))

    model = Model()

    def call(i):
        if i % 2:
            Model.scale = lambda self, x: x * 2.0
        elif "scale" in vars(Model):
            del Model.scale
        return model.run(F.x)

    return call


@program
def a_new_object_of_one_class(F):
    class Options:
        def __init__(self, factor):
            self.factor = factor

    @F.translate
    def f(x, options):
        return work(F, x, options.factor)

    return lambda i: f(F.x, Options(2.0))


@program
def a_new_object_with_another_number(F):
    class Options:
        def __init__(self, factor):
            self.factor = factor

    @F.translate
    def f(x, options):
        return work(F, x, options.factor)

    return lambda i: f(F.x, Options(float(i)))


@program
def the_identity_of_an_object(F):
    @F.translate
    def f(x, o):
        return work(F, x) if id(o) == 5 else work(F, x, 2.0)

    return lambda i: f(F.x, object())


@program
def the_same_object_or_another(F):
    known = object()

    @F.translate
    def f(x, o):
        return work(F, x) if o is known else work(F, x, 2.0)

    return lambda i: f(F.x, object())


@program
def an_object_as_key(F):
    @F.translate
    def f(x, o):
        return {o: work(F, x)}[o]

    return lambda i: f(F.x, object())


@program
def a_new_model(F):
    class Model:
        def __init__(self, factor):
            self.factor = factor

        @F.translate
        def run(self, x):
            return work(F, x, self.factor)

    return lambda i: Model(2.0).run(F.x)


@program
def a_nested_call_with_another_text(F):
    def log(text):
        return f"{text}!"

    @F.translate
    def f(x, i):
        text = log(f"step {i}")
        return work(F, x), text

    return lambda i: f(F.x, i)


@program
def another_thread(F):
    @F.translate
    def f(x):
        return work(F, x)

    def call(i):
        results = []
        thread = threading.Thread(target=lambda: results.append(f(F.x)))
        thread.start()
        thread.join()
        return results[0]

    return call


@program
def the_time(F):
    import time

    @F.translate
    def f(x):
        begin = time.perf_counter()
        y = work(F, x)
        return y, time.perf_counter() >= begin

    return lambda i: f(F.x)


@program
def a_random_number(F):
    import random

    @F.translate
    def f(x, seed):
        random.seed(seed)
        return work(F, x, random.random())

    return lambda i: f(F.x, i)


@program
def toggles_of_two_flags(F):
    class Model:
        training = True
        deep = False

        @F.translate
        def run(self, x):
            if self.training:
                x = x * 2.0
            return work(F, work(F, x)) if self.deep else work(F, x)

    model = Model()

    def call(i):
        model.training, model.deep = bool(i % 2), bool(i // 2 % 2)
        return model.run(F.x)

    return call


@program
def few_strings(F):
    @F.translate
    def f(x, mode):
        if mode == "a":
            return work(F, x)
        return work(F, x, 2.0) if mode == "b" else work(F, x, 3.0)

    return lambda i: f(F.x, "abcdef"[i % 6])


@program
def few_functions(F):
    functions = [lambda x: x * 2.0, lambda x: x + 2.0, lambda x: x - 2.0, lambda x: x / 2.0]

    @F.translate
    def f(x, g):
        return work(F, g(x))

    return lambda i: f(F.x, functions[i % 4])


@program
def few_classes(F):
    classes = [type(f"C{i}", (), {"factor": float(i)}) for i in range(5)]
    objects = [cls() for cls in classes]

    @F.translate
    def f(x, o):
        return work(F, x, o.factor)

    return lambda i: f(F.x, objects[i % 5])


@program
def ten_classes(F):
    classes = [type(f"C{i}", (), {"factor": float(i)}) for i in range(10)]
    objects = [cls() for cls in classes]

    @F.translate
    def f(x, o):
        return work(F, x, o.factor)

    return lambda i: f(F.x, objects[i % 10])


@program
def lengths_that_occur_again(F):
    @F.translate
    def f(xs):
        total = F.x
        for number, x in enumerate(xs):
            total = work(F, total, number * 0.5) + x
        return total

    return lambda i: f([F.x] * (i * 7 % 23 + 1))


@program
def a_new_class_at_every_other_call(F):
    class Known:
        factor = 2.0

    @F.translate
    def f(x, o):
        return work(F, x, o.factor)

    def call(i):
        return f(F.x, Known() if i % 2 else type("C", (), {"factor": 3.0})())

    return call


# Objects that die between two lines, at each call.


@program
def object_that_dies_in_a_function_called(F):
    def observe(found, o):
        found[id(o)] = weakref.ref(o, lambda _: found.clear())

    def called(x):
        class C:
            pass

        found, o = {}, C()
        observe(found, o)
        del o
        return work(F, x), len(found)

    @F.translate
    def f(x):
        return called(x)

    return lambda i: f(F.x)


# Loops without tensors.


@program
def a_loop_without_tensors(F):
    @F.translate
    def f(x, n):
        total = 0
        for i in range(n):
            total += i * i % 7
        return work(F, x) * total

    return lambda i: f(F.x, 1 + i * 37 % 101)


@program
def a_loop_without_tensors_with_branches(F):
    @F.translate
    def f(x, n):
        steps = 0
        while n > 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        return work(F, x) * steps

    return lambda i: f(F.x, 1 + i * 37 % 101)


@program
def a_loop_without_tensors_in_a_helper(F):
    def helper(n):
        total = 0
        for i in range(100):
            total += i * n
        return total

    @F.translate
    def f(x, n):
        return work(F, x) * helper(n)

    return lambda i: f(F.x, i)


# Behind a handler, whose code jumps back to what follows it.


@program
def a_new_function_behind_a_handler(F):
    @F.translate
    def f(x):
        try:
            {}["key"]
        except KeyError:
            pass
        names = {}
        exec("def double(x): return x * 2", names)
        return names["double"](work(F, x))

    return lambda i: f(F.x)


@program
def a_text_behind_a_with(F):
    @F.translate
    def f(x, i):
        with threading.Lock():
            x = x + 1
        return work(F, x), str(complex(i, 1))

    return lambda i: f(F.x, i)


@program
def a_class_behind_a_handler(F):
    @F.translate
    def f(x, i):
        try:
            {}["key"]
        except KeyError:
            pass
        return work(F, x), type("K%d" % i, (), {}).__name__

    return lambda i: f(F.x, i)
