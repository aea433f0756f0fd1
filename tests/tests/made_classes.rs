//! Functions that make a class at each call and look at it behind a break: after a few calls no further translation
//! is made, because translations serve all calls or the function is left to CPython.
//!
//! Needs the interpreter's library at run time: `LD_LIBRARY_PATH` and `PYTHONHOME` name its prefix.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;

use pyo3::prelude::*;
use sot_harness as harness;

const SOURCE: &str = "\
import abc
import toy

class Duck:
    def quack(self): pass

def hook_of_its_own(x):
    class Quacks(abc.ABC):
        @classmethod
        def __subclasshook__(cls, other): return hasattr(other, 'quack')
    return x + 1, issubclass(Duck, Quacks), isinstance(3, Quacks)

def instance(x):
    class Scale:
        def by(self): return 3
    scale = Scale()
    print(x)
    return x * scale.by() + 1

def made_by_another(x):
    def make():
        class Scale:
            factor = 2
        return Scale
    made = make()
    print(x)
    return x * made.factor, made().factor, issubclass(made, Duck)

class Base:
    pass

def abstract(x):
    class Own(Base, abc.ABC):
        pass
    print(x)
    return x + 1, isinstance(Own(), Base), isinstance(3, Own)

def arguments():
    return (toy.arange(2),)
";

/// So many calls, and after so many of them all is translated.
const CALLS: usize = 20;
const SETTLED: usize = 13;

#[test]
fn classes_made_at_each_call_are_not_translated_for_each() {
    harness::with_tracer(|py| {
        for name in ["hook_of_its_own", "instance", "made_by_another", "abstract"] {
            let module = harness::load_module(py, SOURCE, Path::new("made_classes.py")).unwrap();
            let maker = module.getattr("arguments").unwrap();
            let expected = harness::observe(&module, name, std::slice::from_ref(&maker), false).unwrap();
            harness::reset();
            let mut translations = Vec::new();
            for _ in 0..CALLS {
                let before = harness::counts().translations;
                assert_eq!(
                    harness::observe(&module, name, std::slice::from_ref(&maker), true).unwrap(),
                    expected,
                    "{name}"
                );
                translations.push(harness::counts().translations - before);
            }
            let counts = harness::counts();
            assert!(translations[SETTLED..].iter().all(|made| *made == 0), "{name}: {translations:?}");
            let settled = counts.fallbacks.iter().all(|reason| reason.starts_with("too-many-translations"));
            assert!(settled && counts.graphs > 0, "{name}: {counts:?}");
        }
    });
}
