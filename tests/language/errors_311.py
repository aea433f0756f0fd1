"""What exceptions say of themselves since Python 3.11: notes and groups."""

import traceback


class Mine(ExceptionGroup):
    def derive(self, members):
        return Mine(self.message, members)


def text_with_notes(x):
    try:
        e = ValueError("v")
        e.add_note("first")
        e.add_note("second\nline")
        raise e
    except ValueError as c:
        return x + 1, traceback.format_exception_only(c), c.__notes__


def text_of_a_group(x):
    try:
        raise ExceptionGroup("g", [ValueError(1), TypeError("t")])
    except ExceptionGroup as e:
        return x + 1, traceback.format_exception_only(e)


def caught_in_parts(x):
    seen = []
    try:
        try:
            raise ExceptionGroup("a", [ValueError(1), ExceptionGroup("b", [TypeError(2), ValueError(3), OSError(4)])])
        except* ValueError as e:
            seen.append([type(m).__name__ for m in e.exceptions])
        except* TypeError as e:
            seen.append(repr(e))
    except ExceptionGroup as rest:
        seen.append(repr(rest))
    return x + 1, seen


def group_of_base_exceptions(x):
    g = BaseExceptionGroup("b", [KeyboardInterrupt(), ValueError(1)])
    h = BaseExceptionGroup("b", [ValueError(1)])
    return x + 1, type(g).__name__, type(h).__name__, g.subgroup(ValueError).message, len(g.exceptions)
