LOG = []


class Mine(Exception):
    pass


class Other(Mine, KeyError):
    pass


def fail(n):
    return 1 // n


def case_caught():
    try:
        fail(0)
    except ZeroDivisionError:
        return "caught"


def case_not_caught():
    try:
        fail(0)
    except KeyError:
        return "wrong"


def case_tuple():
    try:
        {}["a"]
    except (ValueError, KeyError):
        return "caught"
    except Exception:
        return "wrong"


def case_base_class():
    try:
        [].pop()
    except LookupError as e:
        r = "lookup"
    return r


def case_bare_except():
    try:
        fail(0)
    except:
        return "bare"


def case_else_finally():
    out = []
    try:
        out.append(1)
    except ValueError:
        out.append(2)
    else:
        out.append(3)
    finally:
        out.append(4)
    return out


def case_finally_returns():
    try:
        fail(0)
    finally:
        return "swallowed"


def case_finally_raises():
    try:
        fail(0)
    finally:
        raise KeyError("in finally")


def case_finally_runs_and_reraises():
    out = []
    try:
        try:
            fail(0)
        finally:
            out.append("finally")
    except ZeroDivisionError:
        out.append("except")
    return out


def case_return_through_finally():
    out = []

    def f():
        try:
            return "returned"
        finally:
            out.append("finally")

    return f(), out


def case_loop_finally():
    out = []
    for i in range(4):
        try:
            if i == 1:
                continue
            if i == 3:
                break
            out.append(i)
        finally:
            out.append("f")
    return out


def case_continue_in_finally_after_raise():
    out = []
    for i in range(3):
        try:
            fail(i)
        except ZeroDivisionError:
            out.append("zero")
        finally:
            out.append(i)
    return out


def case_break_swallows():
    for i in range(3):
        try:
            fail(0)
        finally:
            break
    return i


def case_nested_return_in_finally():
    for i in range(3):
        try:
            try:
                return "inner"
            finally:
                fail(0)
        except ZeroDivisionError:
            pass
    return i


def case_raise_class():
    raise ValueError


def case_raise_instance():
    raise ValueError("a", 1)


def case_raise_from():
    try:
        fail(0)
    except ZeroDivisionError as e:
        raise ValueError("later") from e


def case_raise_from_none():
    try:
        fail(0)
    except ZeroDivisionError:
        raise ValueError("later") from None


def case_raise_in_handler():
    try:
        fail(0)
    except ZeroDivisionError:
        raise ValueError("later")


def case_raise_nothing():
    raise 5


def case_bad_cause():
    raise ValueError from 5


def case_reraise():
    try:
        fail(0)
    except ZeroDivisionError:
        raise


def reraise_for_caller():
    raise


def case_reraise_in_callee():
    try:
        fail(0)
    except ZeroDivisionError:
        reraise_for_caller()


def case_reraise_after_inner():
    try:
        raise ValueError("outer")
    except ValueError:
        try:
            fail(0)
        except ZeroDivisionError:
            pass
        raise


def case_handler_name_is_deleted():
    e = 1
    try:
        fail(0)
    except ZeroDivisionError as e:
        pass
    return e


def case_catch_no_class():
    try:
        fail(0)
    except 5:
        return "wrong"


def case_user_class():
    try:
        raise Other("x")
    except KeyError:
        return "caught by base"


def case_user_class_tuple():
    try:
        raise Mine
    except (KeyError, Mine):
        return "caught"


def case_through_frames():
    def f(n):
        try:
            return g(n)
        finally:
            out.append(n)

    def g(n):
        if n == 0:
            raise KeyError(n)
        return f(n - 1)

    out = []
    try:
        f(3)
    except KeyError:
        return out


def case_in_comprehension():
    try:
        return [1 // n for n in (1, 0)]
    except ZeroDivisionError:
        return "caught"


def case_loop_of_handlers():
    out = []
    for f in (1, "a", None):
        try:
            out.append(f + 1)
        except TypeError as e:
            out.append("type")
        else:
            out.append("fine")
    return out


def case_deep_stack():
    def f(*a):
        return a

    def g():
        try:
            raise ValueError
        except ValueError:
            return 3

    return f(1, 2, g(), [f(4, g())])
