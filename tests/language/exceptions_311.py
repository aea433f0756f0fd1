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
