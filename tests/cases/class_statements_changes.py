"""What a class made in the function depends on changes between the calls."""

from cases import changed


class Base:
    k = 1

    def get(self):
        return self.k


class Other:
    k = 5

    def get(self):
        return self.k * 2


BASE = Base


@changed("Base.k = 2", "Base.get = lambda self: 7", "Base.__getattr__ = lambda self, name: 9", "BASE = Other", "del Base.get")
def test_base_changes(x):
    class Local(BASE):
        def more(self):
            return self.get() + 1

    l = Local()
    return x + l.more(), getattr(l, "missing", None)


@changed("Other.k = 3", "Base.k = 3")
def test_two_bases_change(x):
    class Local(Base, Other):
        pass

    class Lower(Local):
        pass

    return x + Lower().k, Lower.k


@changed("Base.__init_subclass__ = classmethod(lambda cls: setattr(cls, 'k', 8))", "Base.__new__ = staticmethod(lambda cls: 5)")
def test_hooks_come(x):
    class Local(Base):
        pass

    made = Local()
    return x + Local.k, type(made).__name__
