class Manager:
    def __init__(self, log, swallow=False):
        self.log = log
        self.swallow = swallow

    def __enter__(self):
        self.log.append("enter")
        return self.log

    def __exit__(self, kind, value, traceback):
        self.log.append("exit" if kind is None else kind.__name__)
        if traceback is not None:
            self.log.append("traceback")
        return self.swallow


class Plain:
    pass


def case_with():
    log = []
    with Manager(log) as got:
        got.append("body")
    return log


def case_swallows():
    log = []
    with Manager(log, True):
        1 // 0
    log.append("after")
    return log


def case_does_not_swallow():
    log = []
    try:
        with Manager(log):
            1 // 0
    except ZeroDivisionError:
        log.append("caught")
    return log


def case_return():
    log = []

    def f():
        with Manager(log):
            return "value"

    return f(), log


def case_nested():
    log = []
    with Manager(log, True) as a, Manager(log) as b:
        raise KeyError
    return log


def case_loop():
    log = []
    for i in range(3):
        with Manager(log):
            if i == 1:
                continue
            if i == 2:
                break
            log.append(i)
    return log


def case_exit_raises():
    log = []

    class_of = Manager

    def bad(kind, value, traceback):
        raise KeyError

    try:
        with Raising():
            1 // 0
    except KeyError:
        return "key"


class Raising:
    def __enter__(self):
        return self

    def __exit__(self, *args):
        raise KeyError("exit")


def case_no_protocol():
    with Plain():
        pass


def case_finally_in_with():
    log = []
    try:
        with Manager(log):
            try:
                1 // 0
            finally:
                log.append("finally")
    except ArithmeticError:
        log.append("caught")
    return log
