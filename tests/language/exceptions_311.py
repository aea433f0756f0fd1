"""Notes and groups."""


def notes(x):
    try:
        e = ValueError("v")
        e.add_note("first")
        e.add_note("second")
        raise e
    except ValueError as e:
        return x + len(e.__notes__), e.__notes__


def group_matched(x):
    try:
        raise ExceptionGroup("g", [ValueError(1)])
    except* ValueError as group:
        n = len(group.exceptions)
    return x + n


def group_split(x):
    found = []
    try:
        raise ExceptionGroup("g", [ValueError(1), TypeError(2), ValueError(3)])
    except* ValueError as group:
        found.append(len(group.exceptions))
    except* TypeError as group:
        found.append(group.exceptions[0].args)
    return x + 1, found


def naked_exception_in_a_group(x):
    found = []
    try:
        raise ValueError(4)
    except* ValueError as group:
        found.append(group.exceptions[0].args[0])
    return x + found[0]


def group_without_exception(x):
    try:
        y = x + 1
    except* ValueError:
        y = x
    return y


def group_with_a_rest(x):
    try:
        try:
            raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
        except* ValueError:
            pass
    except ExceptionGroup as rest:
        return x + len(rest.exceptions), rest.message, type(rest.exceptions[0]).__name__


def group_nested(x):
    found = []
    try:
        raise ExceptionGroup("g", [ValueError(1), ExceptionGroup("h", [TypeError(2), ValueError(3)])])
    except* ValueError as group:
        found.append([type(e).__name__ for e in group.exceptions])
    except* TypeError as group:
        found.append(group.exceptions[0].message)
    return x + 1, found


def group_methods(x):
    group = ExceptionGroup("g", [ValueError(1), TypeError(2)])
    match, rest = group.split(ValueError)
    return x + len(group.exceptions), group.message, len(match.exceptions), type(rest.exceptions[0]).__name__, group.subgroup(KeyError)


def group_caught_whole(x):
    try:
        raise ExceptionGroup("g", [KeyError(1)])
    except ExceptionGroup as group:
        return x + 1, str(group), group.exceptions[0].args


def group_raises_in_a_clause(x):
    try:
        try:
            raise ExceptionGroup("g", [ValueError(1)])
        except* ValueError:
            raise KeyError("new")
    except ExceptionGroup as group:
        return x + 1, [type(e).__name__ for e in group.exceptions]
    except KeyError as e:
        return x + 2, e.args


def notes_of_a_group(x):
    group = ExceptionGroup("g", [ValueError(1)])
    group.add_note("n")
    return x + 1, group.__notes__


def group_with_several_types(x):
    try:
        raise ExceptionGroup("g", [ValueError(1), TypeError(2), KeyError(3)])
    except* (ValueError, TypeError) as group:
        n = len(group.exceptions)
    except* KeyError:
        n += 10
    return x + n


def _shape(e):
    if isinstance(e, ExceptionGroup):
        return type(e).__name__, e.message, [_shape(member) for member in e.exceptions]
    return type(e).__name__, e.args[0]


def _raised(function):
    try:
        function()
    except ExceptionGroup as group:
        context = [type(e.__context__).__name__ for e in group.exceptions]
        return _shape(group), context, type(group.__context__).__name__
    except KeyError as e:
        return _shape(e), _shape(e.__context__), _shape(e.__cause__)


def group_with_clauses_that_raise(x):
    def own():
        try:
            raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
        except* ValueError:
            raise KeyError("new")

    def own_and_again():
        try:
            raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
        except* ValueError:
            raise
        except* TypeError as e:
            raise KeyError("new") from e

    def parts_by_name():
        try:
            raise ExceptionGroup("g", [ValueError(1), TypeError(2), KeyError(3)])
        except* ValueError as e:
            raise e
        except* TypeError:
            raise

    def all_by_name():
        try:
            raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
        except* (ValueError, TypeError) as e:
            raise e

    def naked():
        try:
            raise ValueError(3)
        except* ValueError as e:
            raise KeyError("new") from e

    return x + 1, [_raised(f) for f in (own, own_and_again, parts_by_name, all_by_name, naked)]


def text_of_a_group(x):
    found = []
    try:
        raise ExceptionGroup("g", [ValueError(1), KeyError("k"), ValueError("v")])
    except* ValueError as group:
        found.append((str(group), repr(group)))
    except* KeyError as group:
        found.append((str(group), repr(group)))
    return x + 1, found
