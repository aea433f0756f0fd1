//! The frame hook against CPython: what replaced frames compute, what they leak, and what the hook leaves behind.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![allow(unsafe_code, reason = "one test installs a frame evaluator of its own")]

mod interpreter;

use std::ffi::CString;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyCodeMethods, PyDict, PyFunction};
use sot_core::cpython::{
    self, code_state, counts, flatten_signature, function_code, remove_code_state, set_code_state, CodeState, Counts,
    FrameEvaluator, FreshFrame, Verdict,
};

use interpreter::with_python;

/// Tells the evaluator how to treat the frames of a code object.
#[derive(Default)]
#[allow(clippy::struct_excessive_bools, reason = "each test sets one of them")]
struct Plan {
    code: Option<Py<PyAny>>,
    disable: bool,
    leaves_alone: bool,
    panics: bool,
    raises: bool,
    _dropped: Option<CountsDrop>,
    seen: AtomicU64,
}

impl CodeState for Plan {
    fn leaves_alone(&self) -> bool {
        self.leaves_alone
    }
}

/// Counts when it goes.
struct CountsDrop(Arc<AtomicU64>);

impl Drop for CountsDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

struct ByPlan;

impl FrameEvaluator for ByPlan {
    fn evaluate(&self, frame: &FreshFrame<'_, '_>) -> Verdict {
        assert!(!cpython::is_active(), "the evaluator itself is not traced");
        let Some(plan) = code_state::<Plan>(&frame.code()) else {
            return Verdict::Original { disable_eval_frame: false };
        };
        plan.seen.fetch_add(1, Ordering::Relaxed);
        assert!(!plan.panics, "a bug in the evaluator");
        if plan.raises {
            return Verdict::Raise(PyValueError::new_err("from the evaluator"));
        }
        match &plan.code {
            Some(code) => Verdict::Replace { code: code.clone_ref(frame.py()), disable_eval_frame: plan.disable },
            None => Verdict::Original { disable_eval_frame: plan.disable },
        }
    }
}

/// One test at a time: they watch what the whole process shares.
fn serial() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    let guard = LOCK.lock();
    let _ = cpython::set_evaluator(&ByPlan);
    cpython::use_reference_method(false);
    guard
}

fn define<'py>(py: Python<'py>, source: &str) -> Bound<'py, PyDict> {
    let namespace = PyDict::new(py);
    py.run(&CString::new(source).unwrap(), Some(&namespace), None).unwrap();
    namespace
}

fn function<'py>(namespace: &Bound<'py, PyDict>, name: &str) -> Bound<'py, PyFunction> {
    namespace.get_item(name).unwrap().unwrap().cast_into().unwrap()
}

fn code_of<'py>(namespace: &Bound<'py, PyDict>, name: &str) -> Bound<'py, PyCode> {
    function_code(&function(namespace, name))
}

fn plan(namespace: &Bound<'_, PyDict>, name: &str, plan: Plan) {
    set_code_state(&code_of(namespace, name), plan).unwrap();
}

/// From now on frames of `name` run the code of `by`.
fn replace(namespace: &Bound<'_, PyDict>, name: &str, by: &str) {
    let code = flatten_signature(&code_of(namespace, by)).unwrap().into_any().unbind();
    plan(namespace, name, Plan { code: Some(code), ..Plan::default() });
}

fn eval<'py>(namespace: &Bound<'py, PyDict>, expression: &str) -> PyResult<Bound<'py, PyAny>> {
    namespace.py().eval(&CString::new(expression).unwrap(), Some(namespace), None)
}

/// Returns the value of an expression, or the exception that it raises, as text.
fn outcome(namespace: &Bound<'_, PyDict>, expression: &str) -> String {
    match eval(namespace, expression) {
        Ok(value) => value.repr().unwrap().to_string(),
        Err(error) => error.to_string(),
    }
}

fn traced<R>(py: Python<'_>, run: impl FnOnce() -> R) -> (R, Counts) {
    let before = counts();
    let result = {
        let _active = cpython::enter(py).unwrap();
        run()
    };
    let after = counts();
    let difference = Counts {
        native: after.native - before.native,
        called: after.called - before.called,
        rejected: after.rejected - before.rejected,
        panics: after.panics - before.panics,
    };
    (result, difference)
}

#[test]
fn the_self_test_passes() {
    let _serial = serial();
    with_python(|py| {
        cpython::self_test(py).unwrap();
        cpython::self_test(py).unwrap();
        assert_eq!(cpython::blind_spot(), None);
        assert!(!cpython::is_active());
    });
}

/// Pairs of functions `f` and `g` of one signature, with calls.
const PAIRS: &[(&str, &[&str])] = &[
    ("def f(): return 'f'\ndef g(): return 'g'", &["f()", "f(1)"]),
    ("def f(a, b): return 'f'\ndef g(a, b): return 'g', a, b", &["f(1, 2)", "f(b=1, a=2)", "f(1)"]),
    (
        "def f(a, b=2, *args, c, d=4, **kw): return 'f'\n\
         def g(a, b=2, *args, c, d=4, **kw): return 'g', a, b, args, c, d, kw",
        &["f(1, c=3)", "f(1, 22, 33, 44, c=5, d=6, e=7)", "f(*range(9), c=0, **{'x': 1})", "f()"],
    ),
    (
        "def make(free):\n\
        \x20 def f(a, b=2, *args, c, **kw): return a, (lambda: (a, b, c, args, kw, free))()\n\
        \x20 def g(a, b=2, *args, c, **kw): return 'g', a, (lambda: (a, b, c, args, kw, free))()\n\
        \x20 return f, g\n\
         f, g = make('free')",
        &["f(1, c=3)", "f(1, 22, 33, 44, c=5, d=6, e=7)"],
    ),
    (
        "def make(free):\n\
        \x20 def f(a, *args): return (lambda: (args, free))()\n\
        \x20 def g(a, *args):\n\
        \x20   nonlocal free\n\
        \x20   free = a\n\
        \x20   return 'g', (lambda: a)(), args, free\n\
        \x20 return f, g, lambda: free\n\
         f, g, look = make('free')",
        &["f(1)", "f(1, 2)", "look()"],
    ),
    (
        "def f(a, b): return a\n\
         def g(a, b):\n\
        \x20 p = q = r = s = t = [a, [b, [a, [b, [a, [b, (a, b, a, b, a, b, a, b, a, b)]]]]]]\n\
        \x20 return (lambda: (a, q))(), p, r, s, t",
        &["f(1, 2)"],
    ),
    (
        "def f(a):\n\
        \x20 p = q = r = s = t = [a, [a, [a, [a, [a, [a, (a, a, a, a, a, a, a, a, a)]]]]]]\n\
        \x20 return (lambda: (a, q))(), p, r, s, t\n\
         def g(a): return a",
        &["f(1)"],
    ),
    (
        "def f(a): return 1 // a\n\
         def g(a):\n\
        \x20 try:\n\
        \x20   return 2 // a\n\
        \x20 except ZeroDivisionError as e:\n\
        \x20   raise KeyError(a, str(e)) from e",
        &["f(1)", "f(0)"],
    ),
    (
        "class B:\n\
        \x20 def m(self): return 'base'\n\
         class C(B):\n\
        \x20 def m(self): return 'f', super().m()\n\
        \x20 def n(self): return 'g', super().m()\n\
         f, g, c = C.m, C.n, C()",
        &["c.m()"],
    ),
];

/// Replaces `f` by `g`, and compares with what CPython does when `f` is called with the code of `g`.
fn compare(py: Python<'_>, source: &str, call: &str) -> Counts {
    let oracle = define(py, source);
    if function(&oracle, "f")
        .getattr("__code__")
        .unwrap()
        .getattr("co_freevars")
        .unwrap()
        .ne(function(&oracle, "g").getattr("__code__").unwrap().getattr("co_freevars").unwrap())
        .unwrap()
    {
        oracle.set_item("f", function(&oracle, "g")).unwrap();
    } else {
        py.run(c"f.__code__ = g.__code__", Some(&oracle), None).unwrap();
    }
    let expected = outcome(&oracle, call).replace("g() missing", "f() missing").replace("g() takes", "f() takes");
    let tested = define(py, source);
    replace(&tested, "f", "g");
    let (got, counts) = traced(py, || outcome(&tested, call));
    assert_eq!(
        got.replace("g() missing", "f() missing").replace("g() takes", "f() takes"),
        expected,
        "{source}\n{call}"
    );
    assert_eq!(counts.rejected, 0, "{source}");
    counts
}

#[test]
fn replaced_code_gets_every_kind_of_argument() {
    let _serial = serial();
    with_python(|py| {
        for reference in [false, true] {
            cpython::use_reference_method(reference);
            let (mut native, mut called) = (0, 0);
            for (source, calls) in PAIRS {
                for call in *calls {
                    let counts = compare(py, source, call);
                    native += counts.native;
                    called += counts.called;
                }
            }
            assert_eq!(if reference { native } else { 0 }, 0);
            assert!(native + called >= 14, "frames were replaced: {native} {called}");
        }
        cpython::use_reference_method(false);
    });
}

#[test]
fn free_variables_are_matched_by_name() {
    let _serial = serial();
    with_python(|py| {
        let namespace = define(
            py,
            "def make(a, b):\n\
            \x20 def f(): return a, b\n\
            \x20 def g(): return 'g', b\n\
            \x20 return f, g\n\
             def other(c):\n\
            \x20 def h(): return c\n\
            \x20 return h\n\
             f, g = make(1, 2)\n\
             h = other(3)",
        );
        replace(&namespace, "f", "g");
        let (got, counts) = traced(py, || outcome(&namespace, "f()"));
        assert_eq!((got.as_str(), counts.called), ("('g', 2)", 1));
        replace(&namespace, "f", "h");
        let (got, counts) = traced(py, || outcome(&namespace, "f()"));
        assert_eq!((got.as_str(), counts.replaced(), counts.rejected), ("(1, 2)", 0, 1));
    });
}

#[test]
fn code_that_does_not_fit_is_refused() {
    let _serial = serial();
    with_python(|py| {
        let namespace = define(py, "def f(a): return 'f'\ndef g(a, b): return 'g'\ndef h(*a): return 'h'");
        replace(&namespace, "f", "g");
        assert_eq!(traced(py, || outcome(&namespace, "f(1)")).1.rejected, 1);
        let unflattened = code_of(&namespace, "h").into_any().unbind();
        for code in [unflattened, py.None()] {
            plan(&namespace, "f", Plan { code: Some(code), ..Plan::default() });
            let (got, counts) = traced(py, || outcome(&namespace, "f(1)"));
            assert_eq!((got.as_str(), counts.rejected, counts.replaced()), ("'f'", 1, 0));
        }
    });
}

#[test]
fn generators_and_coroutines_are_replaced_where_the_hook_sees_them() {
    let _serial = serial();
    let source = "def f(a):\n\
        \x20 yield 'f'\n\
         def g(a):\n\
        \x20 try:\n\
        \x20   got = yield 'g', a\n\
        \x20   yield got\n\
        \x20 except KeyError as e:\n\
        \x20   yield 'caught'\n\
        \x20 finally:\n\
        \x20   log.append('end')\n\
         async def cf(a): return 'f'\n\
         async def cg(a): return 'g', a\n\
         log = []\n\
         def use(f):\n\
        \x20 it = f(1)\n\
        \x20 first = next(it), it.send(2), it.__name__\n\
        \x20 it.close()\n\
        \x20 it = f(3)\n\
        \x20 return first, next(it), it.throw(KeyError()), list(f(4)), log\n\
         def drive(f):\n\
        \x20 c = f(1)\n\
        \x20 try: c.send(None)\n\
        \x20 except StopIteration as e: return e.value, c.__name__";
    with_python(|py| {
        let namespace = define(py, source);
        if cfg!(Py_3_11) {
            for reference in [false, true] {
                cpython::use_reference_method(reference);
                let namespace = define(py, source);
                replace(&namespace, "f", "g");
                replace(&namespace, "cf", "cg");
                let (got, counts) = traced(py, || outcome(&namespace, "use(f)"));
                let expected = "((('g', 1), 2, 'f'), ('g', 3), 'caught', [('g', 4), None], ['end', 'end', 'end'])";
                assert_eq!(got, expected);
                assert_eq!((counts.native, counts.called), (0, 3));
                let (got, counts) = traced(py, || outcome(&namespace, "drive(cf)"));
                assert_eq!((got.as_str(), counts.called), ("(('g', 1), 'cf')", 1));
            }
        } else {
            replace(&namespace, "f", "g");
            let (got, counts) = traced(py, || outcome(&namespace, "list(f(1))"));
            assert_eq!((got.as_str(), counts.replaced()), ("['f']", 0));
        }
    });
}

#[test]
fn recursion_is_as_deep_as_without_the_hook() {
    let _serial = serial();
    let source = "import sys\n\
         def f(n):\n\
        \x20 try: return f(n + 1)\n\
        \x20 except RecursionError: return n\n\
         def g(n):\n\
        \x20 a = b = c = d = e = h = n\n\
        \x20 try: return f(n + 1)\n\
        \x20 except RecursionError: return n\n";
    let check = |limit: u64| {
        with_python(|py| {
            let depth = |namespace: &Bound<'_, PyDict>| eval(namespace, "f(0)").unwrap().extract::<u64>().unwrap();
            let plain = depth(&define(py, source));
            let passed = traced(py, || depth(&define(py, source))).0;
            assert!(passed + 5 >= plain && passed + 100 > limit, "{plain} without the hook, {passed} with it");
            let namespace = define(py, source);
            replace(&namespace, "f", "g");
            let (replaced, counts) = traced(py, || depth(&namespace));
            assert!(replaced + 20 >= plain, "{plain} without the hook, {replaced} replaced");
            assert!(counts.replaced() + 100 > limit);
            eprintln!("recursion: {plain} plain, {passed} hooked, {replaced} replaced ({counts:?})");
        });
    };
    check(1000);
    let set_limit = |limit: u64| {
        with_python(|py| eval(&define(py, source), &format!("sys.setrecursionlimit({limit})")).map(drop).unwrap());
    };
    set_limit(20_000);
    let deep = std::thread::Builder::new().stack_size(512 << 20);
    std::thread::scope(|scope| deep.spawn_scoped(scope, || check(20_000)).unwrap().join().unwrap());
    set_limit(1000);
}

#[test]
fn frames_of_any_size_fit_a_nearly_full_data_stack() {
    let _serial = serial();
    // Every level replaces a small frame by a large one; some levels find no room in the current chunk.
    let mut source = "def f(n): return n and 1 + f(n - 1)\ndef g(n):\n".to_owned();
    for i in 0..60 {
        source.extend(["  v", &i.to_string(), " = n + ", &i.to_string(), "\n"]);
    }
    source += "  total = f(n - 1) if n else 0\n  return total + (v59 - v0 == 59)\n";
    with_python(|py| {
        let namespace = define(py, &source);
        replace(&namespace, "f", "g");
        let (got, counts) = traced(py, || {
            (0..700)
                .step_by(7)
                .map(|n| eval(&namespace, &format!("f({n})")).unwrap().extract::<u64>().unwrap() - n)
                .collect::<Vec<_>>()
        });
        assert!(got.iter().all(|&off| off == 1), "{got:?}");
        assert_eq!(counts.replaced(), (0..700).step_by(7).map(|n| n + 1).sum::<u64>());
        if cfg!(Py_3_11) {
            assert!(counts.native > 1000 && counts.called > 100, "{counts:?}");
        }
        eprintln!("data stack: {counts:?}");
    });
}

#[test]
fn a_disabled_frame_and_what_it_calls_are_left_alone() {
    let _serial = serial();
    let source = "def inner(): return 'inner'\ndef other(): return 'other'\n\
        def f(): return inner()\ndef g(): return 'g', inner()\ndef both(): return f(), inner()";
    with_python(|py| {
        let namespace = define(py, source);
        replace(&namespace, "inner", "other");
        assert_eq!(traced(py, || outcome(&namespace, "both()")).0, "('other', 'other')");
        plan(&namespace, "f", Plan { disable: true, ..Plan::default() });
        assert_eq!(traced(py, || outcome(&namespace, "both()")).0, "('inner', 'other')");
        let code = flatten_signature(&code_of(&namespace, "g")).unwrap().into_any().unbind();
        for reference in [false, true] {
            cpython::use_reference_method(reference);
            plan(&namespace, "f", Plan { code: Some(code.clone_ref(py)), disable: true, ..Plan::default() });
            let (got, counts) = traced(py, || outcome(&namespace, "both()"));
            assert_eq!((got.as_str(), counts.replaced()), ("(('g', 'inner'), 'other')", 2));
        }
    });
}

#[test]
fn what_is_called_below_code_that_is_left_alone_is_looked_at_now_and_then() {
    let _serial = serial();
    with_python(|py| {
        let namespace = define(py, "def inner(): return 1\ndef other(): return 2\ndef outer(): return inner()");
        plan(&namespace, "outer", Plan { leaves_alone: true, ..Plan::default() });
        plan(&namespace, "inner", Plan::default());
        let seen = |name: &str| code_state::<Plan>(&code_of(&namespace, name)).unwrap().seen.load(Ordering::Relaxed);
        let (got, _) = traced(py, || outcome(&namespace, "sum(outer() for _ in range(2000))"));
        assert_eq!(got, "2000");
        assert_eq!(seen("outer"), 0, "it is not asked about");
        assert!((64..150).contains(&seen("inner")), "{}", seen("inner"));
        replace(&namespace, "inner", "other");
        let (got, counts) = traced(py, || outcome(&namespace, "sum(outer() for _ in range(200))"));
        assert!((136..=200).contains(&counts.replaced()), "{counts:?}: found within 64 calls, and never lost again");
        assert_eq!(got, (200 + counts.replaced()).to_string());
    });
}

#[test]
fn sections_nest_and_suspend() {
    let _serial = serial();
    with_python(|py| {
        let namespace = define(py, "def f(): return 'f'\ndef g(): return 'g'");
        replace(&namespace, "f", "g");
        let call = || outcome(&namespace, "f()");
        let outer = cpython::enter(py).unwrap();
        assert!(cpython::is_active());
        {
            let _inner = cpython::enter(py).unwrap();
            assert_eq!(call(), "'g'");
            {
                let _off = cpython::suspend(py);
                assert!(!cpython::is_active());
                assert_eq!(call(), "'f'");
                let _on = cpython::enter(py).unwrap();
                assert_eq!(call(), "'g'");
            }
            assert_eq!(call(), "'g'");
        }
        assert_eq!(call(), "'g'");
        drop(outer);
        assert_eq!(call(), "'f'");
        let _off = cpython::suspend(py);
        assert!(!cpython::is_active());
        assert_eq!(call(), "'f'");
    });
}

#[test]
fn threads_have_their_own_flag() {
    let _serial = serial();
    let namespace = with_python(|py| {
        py.run(c"import sys; sys.setswitchinterval(1e-5)", None, None).unwrap();
        let namespace =
            define(py, "def f(a): return a\ndef g(a): return -a\ndef run(n): return [f(i) for i in range(n)]");
        replace(&namespace, "f", "g");
        namespace.unbind()
    });
    let before = counts().replaced();
    let work = |active: bool| {
        let namespace = with_python(|py| namespace.clone_ref(py));
        move || {
            for _ in 0..20 {
                with_python(|py| {
                    let active = active.then(|| cpython::enter(py).unwrap());
                    let namespace = namespace.bind(py);
                    let sum: i64 = eval(namespace, "sum(run(1000))").unwrap().extract().unwrap();
                    assert_eq!(sum, if active.is_some() { -499_500 } else { 499_500 });
                });
            }
            with_python(|_| drop(namespace));
        }
    };
    let threads: Vec<_> =
        [true, false, true, true].into_iter().map(|active| std::thread::spawn(work(active))).collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(counts().replaced() - before, 60_000);
    with_python(|py| {
        py.run(c"import sys; sys.setswitchinterval(5e-3)", None, None).unwrap();
        drop(namespace);
    });
}

#[test]
fn a_hundred_thousand_calls_leak_nothing() {
    let _serial = serial();
    let source = "import sys, gc\n\
         def make(free):\n\
        \x20 def f(a, b=2, *args, c, **kw): return a, (lambda: (a, c, free))()\n\
        \x20 def g(a, b=2, *args, c, **kw):\n\
        \x20   x = y = z = (lambda: (a, c, free))()\n\
        \x20   if b is None: raise KeyError(a)\n\
        \x20   return x\n\
        \x20 return f, g\n\
         f, g = make(object())\n\
         def gf(a): yield a\n\
         def gg(a):\n\
        \x20 x = y = z = a\n\
        \x20 yield x\n\
         one, two = object(), object()\n\
         def run(n):\n\
        \x20 for i in range(n):\n\
        \x20   f(one, 3, two, c=two, d=one)\n\
        \x20   for _ in gf(one): pass\n\
        \x20   try: f(one, None, c=two)\n\
        \x20   except KeyError: pass\n\
         def snapshot(codes):\n\
        \x20 gc.collect()\n\
        \x20 things = [one, two, f, g, f.__code__, g.__code__, f.__closure__, f.__closure__[0], f.__globals__, gf, gg]\n\
        \x20 return [sys.getrefcount(t) for t in things + codes]\n\
         def blocks():\n\
        \x20 gc.collect()\n\
        \x20 return sys.getallocatedblocks()";
    with_python(|py| {
        for reference in [false, true] {
            cpython::use_reference_method(reference);
            let namespace = define(py, source);
            replace(&namespace, "f", "g");
            replace(&namespace, "gf", "gg");
            let codes = code_state::<Plan>(&code_of(&namespace, "f")).unwrap();
            namespace.set_item("codes", vec![codes.code.as_ref().unwrap().clone_ref(py)]).unwrap();
            drop(codes);
            traced(py, || eval(&namespace, "run(2000)").map(drop)).0.unwrap();
            let refs = outcome(&namespace, "snapshot(codes)");
            let blocks: i64 = eval(&namespace, "blocks()").unwrap().extract().unwrap();
            let (done, counts) = traced(py, || eval(&namespace, "run(100000)").map(drop));
            done.unwrap();
            assert!(counts.replaced() >= 200_000, "{counts:?}");
            let grown: i64 = eval(&namespace, "blocks()").unwrap().extract::<i64>().unwrap() - blocks;
            assert_eq!(outcome(&namespace, "snapshot(codes)"), refs);
            assert!(grown < 100, "{grown} blocks");
            eprintln!("leaks: reference {reference}, {counts:?}, {grown} blocks");
        }
    });
}

#[test]
fn an_evaluator_may_raise() {
    let _serial = serial();
    with_python(|py| {
        let namespace = define(
            py,
            "import sys\n\
             def f(a, *args, **kw): return (lambda: a)()\n\
             one = object()\n\
             def run(n):\n\
            \x20 caught = 0\n\
            \x20 for i in range(n):\n\
            \x20   try: f(one, one, x=one)\n\
            \x20   except ValueError as e: caught += str(e) == 'from the evaluator'\n\
            \x20 return caught\n\
             def deep(n): return run(3) + deep(n - 1) if n else 0",
        );
        plan(&namespace, "f", Plan { raises: true, ..Plan::default() });
        let refs = outcome(&namespace, "sys.getrefcount(one)");
        assert_eq!(traced(py, || outcome(&namespace, "run(20000)")).0, "20000");
        assert_eq!(traced(py, || outcome(&namespace, "deep(300)")).0, "900");
        assert_eq!(outcome(&namespace, "sys.getrefcount(one)"), refs);
    });
}

#[test]
fn a_panic_leaves_the_original() {
    let _serial = serial();
    with_python(|py| {
        let namespace = define(py, "def f(a): return a + 1");
        plan(&namespace, "f", Plan { panics: true, ..Plan::default() });
        let (got, counts) = traced(py, || outcome(&namespace, "f(1)"));
        assert_eq!((got.as_str(), counts.panics, counts.replaced()), ("2", 1, 0));
        assert_eq!(cpython::last_panic().unwrap(), "a bug in the evaluator");
    });
}

#[test]
fn state_dies_with_its_code() {
    let _serial = serial();
    with_python(|py| {
        let dropped = Arc::new(AtomicU64::new(0));
        let is_dropped = || dropped.load(Ordering::Relaxed);
        let namespace = define(py, "def f(): return 'f'\ndef g(): return f()");
        let with_drop = || Plan { _dropped: Some(CountsDrop(dropped.clone())), ..Plan::default() };
        let code = code_of(&namespace, "f");
        assert!(code_state::<Plan>(&code).is_none());
        plan(&namespace, "f", with_drop());
        assert!(code_state::<Plan>(&code).is_some());
        assert!(code_state::<u8>(&code).is_none(), "another type");
        plan(&namespace, "f", with_drop());
        assert_eq!(is_dropped(), 1, "overwritten");
        let held = code_state::<Plan>(&code).unwrap();
        remove_code_state(&code).unwrap();
        assert_eq!(is_dropped(), 1, "still held");
        assert!(code_state::<Plan>(&code).is_none());
        drop(held);
        assert_eq!(is_dropped(), 2);
        plan(&namespace, "f", with_drop());
        drop(code);
        namespace.clear();
        py.run(c"import gc; gc.collect()", None, None).unwrap();
        assert_eq!(is_dropped(), 3, "the code died");
    });
}

#[test]
fn modules_and_classes_are_not_evaluated() {
    let _serial = serial();
    with_python(|py| {
        let code = PyCode::compile(py, c"class C:\n  x = 1", c"m", pyo3::types::PyCodeInput::File).unwrap();
        set_code_state(&code, Plan::default()).unwrap();
        let _active = cpython::enter(py).unwrap();
        code.run(None, None).unwrap();
        assert_eq!(code_state::<Plan>(&code).unwrap().seen.load(Ordering::Relaxed), 0);
    });
}

#[cfg(Py_3_9)]
mod foreign {
    use super::*;
    use pyo3::ffi;
    use std::ffi::c_int;

    static SEEN: AtomicU64 = AtomicU64::new(0);

    #[cfg(Py_3_11)]
    type RawFrame = ffi::_PyInterpreterFrame;
    #[cfg(not(Py_3_11))]
    type RawFrame = ffi::PyFrameObject;

    extern "C" {
        fn _PyEval_EvalFrameDefault(
            ts: *mut ffi::PyThreadState,
            frame: *mut RawFrame,
            throw: c_int,
        ) -> *mut ffi::PyObject;
    }

    unsafe extern "C" fn counting(
        ts: *mut ffi::PyThreadState,
        frame: *mut RawFrame,
        throw: c_int,
    ) -> *mut ffi::PyObject {
        SEEN.fetch_add(1, Ordering::Relaxed);
        // SAFETY: called as CPython calls an evaluator.
        unsafe { _PyEval_EvalFrameDefault(ts, frame, throw) }
    }

    fn set(eval: ffi::_PyFrameEvalFunction) {
        // SAFETY: the tests hold the GIL.
        unsafe { ffi::_PyInterpreterState_SetEvalFrameFunc(ffi::PyInterpreterState_Get(), Some(eval)) };
    }

    #[allow(clippy::useless_conversion, reason = "an option only before 3.11")]
    fn get() -> usize {
        // SAFETY: the tests hold the GIL.
        let eval: Option<ffi::_PyFrameEvalFunction> =
            unsafe { ffi::_PyInterpreterState_GetEvalFrameFunc(ffi::PyInterpreterState_Get()) }.into();
        eval.unwrap() as usize
    }

    fn seen_by_foreign(run: impl FnOnce()) -> u64 {
        let before = SEEN.load(Ordering::Relaxed);
        run();
        SEEN.load(Ordering::Relaxed) - before
    }

    #[test]
    fn what_was_in_the_slot_comes_back() {
        let _serial = serial();
        with_python(|py| {
            let default = _PyEval_EvalFrameDefault as *const () as usize;
            let namespace = define(py, "def f(): return 'f'\ndef g(): return 'g'");
            replace(&namespace, "f", "g");
            let call = || outcome(&namespace, "f()");
            assert_eq!(get(), default);

            set(counting);
            assert!(seen_by_foreign(|| assert_eq!(call(), "'f'")) > 0);
            {
                let _active = cpython::enter(py).unwrap();
                assert_eq!(seen_by_foreign(|| assert_eq!(call(), "'g'")), 0);
                let other = py.detach(|| {
                    std::thread::scope(|scope| {
                        scope
                            .spawn(|| {
                                seen_by_foreign(|| with_python(|py| py.run(c"(lambda: 1)()", None, None).unwrap()))
                            })
                            .join()
                    })
                });
                assert!(other.unwrap() > 0, "a thread without a section goes to the one before us");
            }
            assert_eq!(get(), counting as *const () as usize, "restored");

            {
                let _active = cpython::enter(py).unwrap();
                set(_PyEval_EvalFrameDefault);
            }
            assert_eq!(get(), counting as *const () as usize, "restored over the default");

            set(_PyEval_EvalFrameDefault);
            let outer = cpython::enter(py).unwrap();
            set(counting);
            assert_eq!(call(), "'f'");
            drop(cpython::enter(py).unwrap());
            assert_eq!(call(), "'g'", "the slot is looked at on entry");
            set(counting);
            drop(outer);
            assert_eq!(get(), counting as *const () as usize, "not ours any more");

            // Another tracer, in a section of its own within ours, calls a function of ours.
            let hooks = py.import("sys").unwrap().dict().get_item("<sot hooks>").unwrap().unwrap();
            hooks.call_method1("add", (counting as *const () as usize,)).unwrap();
            set(_PyEval_EvalFrameDefault);
            let outer = cpython::enter(py).unwrap();
            set(counting);
            {
                let _inner = cpython::enter(py).unwrap();
                assert_eq!(call(), "'g'", "the innermost section's");
            }
            assert_eq!(get(), counting as *const () as usize, "it goes on where it was");
            assert_eq!(call(), "'f'");
            set(_PyEval_EvalFrameDefault);
            drop(outer);
            hooks.call_method1("discard", (counting as *const () as usize,)).unwrap();
            set(_PyEval_EvalFrameDefault);
            assert_eq!(get(), default);
        });
    }
}

/// Not a test: prints what things cost. Run in release mode with `--ignored --nocapture`.
#[test]
#[ignore = "prints figures"]
fn costs() {
    let _serial = serial();
    with_python(|py| {
        let source = "from time import perf_counter_ns as now\n\
             def f(a, b, c, d): pass\n\
             def g(a, b, c, d): pass\n\
             def loop(n):\n\
            \x20 call = empty = 1e18\n\
            \x20 for _ in range(60):\n\
            \x20   t = now()\n\
            \x20   for i in range(n): f(1, 2, 3, 4)\n\
            \x20   call = min(call, now() - t)\n\
            \x20   t = now()\n\
            \x20   for i in range(n): pass\n\
            \x20   empty = min(empty, now() - t)\n\
            \x20 return round((call - empty) / n, 1)";
        let fresh = || define(py, source);
        let run = |namespace: &Bound<'_, PyDict>| outcome(namespace, "loop(20000)");
        let off = run(&fresh());
        let suspended = {
            let _active = cpython::enter(py).unwrap();
            let _off = cpython::suspend(py);
            run(&fresh())
        };
        let original = traced(py, || run(&fresh())).0;
        let planned = fresh();
        plan(&planned, "f", Plan::default());
        let planned = traced(py, || run(&planned)).0;
        let replaced = fresh();
        replace(&replaced, "f", "g");
        let native = traced(py, || run(&replaced)).0;
        cpython::use_reference_method(true);
        let called = traced(py, || run(&replaced)).0;
        cpython::use_reference_method(false);
        eprintln!(
            "ns a call: off {off}, suspended {suspended}, original without state {original}, with state {planned}, \
             replaced {native}, by reference {called}"
        );
        let code = code_of(&fresh(), "f");
        set_code_state(&code, Plan::default()).unwrap();
        let times = 10_000_000u32;
        let started = Instant::now();
        for _ in 0..times {
            assert!(std::hint::black_box(code_state::<Plan>(std::hint::black_box(&code))).is_some());
        }
        eprintln!("code_state: {:?} a lookup", started.elapsed() / times);
        let started = Instant::now();
        for _ in 0..1_000_000 {
            drop(std::hint::black_box(cpython::enter(py).unwrap()));
        }
        eprintln!("enter and leave: {:?}", started.elapsed() / 1_000_000);
        let callable = cpython::fastcall(py, "fast", "", |py, _args| Ok(py.None())).unwrap();
        let namespace = fresh();
        namespace.set_item("f", callable).unwrap();
        let fast = run(&namespace);
        namespace.set_item("f", py.eval(c"max", None, None).unwrap()).unwrap();
        eprintln!("fastcall: {fast} ns a call, builtin max of four: {} ns", run(&namespace));
    });
}
