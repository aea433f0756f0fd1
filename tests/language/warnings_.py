"""`warnings` that a function gives and catches."""

import functools
import warnings


class Own(UserWarning):
    pass


class Shown(UserWarning):
    def __str__(self):
        return "<" + super().__str__() + ">"


def _old(value):
    warnings.warn("old is deprecated", DeprecationWarning, stacklevel=2)
    return value + 1


def _deprecated(function):
    @functools.wraps(function)
    def wrapped(*args):
        warnings.warn(f"{function.__name__} is old", DeprecationWarning, stacklevel=2)
        return function(*args)

    return wrapped


@_deprecated
def _doubled(value):
    return value * 2


def ignored(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("no", UserWarning)
        y = x + 1
    return y


def recorded(x):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn("hello")
        warnings.warn("dep", DeprecationWarning)
        y = _old(x)
    texts = [(str(w.message), w.category, w.lineno, w.filename[-5:]) for w in caught]
    return y + len(caught), texts, issubclass(caught[-1].category, DeprecationWarning), str(caught[1])[:20]


def recorded_of_the_programs_own(x):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn("hello", Own)
        warnings.warn("hello", Shown)
    return x + 1, len(caught), str(caught[0].message), str(caught[1].message), caught[0].message.args, caught


def made_errors(x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        texts = []
        for category in (RuntimeWarning, Own, Shown):
            try:
                warnings.warn("boom", category)
            except UserWarning as error:
                texts.append((str(error), type(error)))
            except RuntimeWarning as error:
                texts.append(str(error))
    return x + 1, texts


def filters_put_back(x):
    before, entries = warnings.filters, list(warnings.filters)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        inside = warnings.filters[0][0], warnings.filters is before
    return x + 1, before is warnings.filters, entries == before, inside, warnings.showwarning is warnings._showwarning_orig


def filtered_by_text(x):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", message="skip.*")
        warnings.filterwarnings("error", category=FutureWarning)
        warnings.warn("skip this")
        warnings.warn("keep this")
        try:
            warnings.warn("later", FutureWarning)
        except FutureWarning as error:
            text = str(error)
    return x + 1, [str(w.message) for w in caught], text


def nested_filters(x):
    with warnings.catch_warnings(record=True) as outer:
        warnings.simplefilter("always")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.warn("a")
        warnings.warn("b")
        with warnings.catch_warnings(record=True) as inner:
            warnings.warn("c")
    return x + len(outer), [str(w.message) for w in outer], [str(w.message) for w in inner]


def error_inside(x):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            raise ValueError(3)
    except ValueError as error:
        return x + error.args[0], len(warnings.filters)


def returned_inside(x):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn("r")
        return x + len(caught), caught[0].message


def shown_in_its_own_way(x):
    texts = []
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *rest, **options: texts.append(str(message))
        warnings.warn("own")
    return x + len(texts), texts


def given_by_a_decorator(x):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        y = _doubled(x)
    return y, [(str(w.message), w.lineno) for w in caught]


def before_and_behind(x):
    warnings.warn("plain")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("no")
    return x + 1
