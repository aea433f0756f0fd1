//! Observers: who watches translations without taking part in them. A hit has no observer, and where none is linked an
//! instruction costs one question.

use crate::bytecode::CodeUnit;
use crate::error::{Flow, Reason};
use crate::fault::watching;
use crate::guard::Guard;
use crate::ir::Statement;
use crate::machine::executor::OpcodeExecutor;
use crate::machine::opcode::{Next, Operand};
use crate::origin::{Linked, Registered, RegistrationOrigin};

/// What became of a translation.
#[derive(Clone, Copy, Debug)]
pub enum TranslationOutcome<'a> {
    /// The frame is one graph, or several, to its end.
    Whole,
    /// The graph ends there, and a resume function goes on.
    Broken(&'a Reason),
    /// The frame is left to CPython.
    LeftAlone(&'a Reason),
}

/// Watches translations. All methods are told of what has happened, and change nothing; the code of the program that
/// they may run is not translated. A frame is simulated anew where an attempt has shown that it must be, so steps,
/// statements and guards may be told again or be taken back; what [`Observer::ends`] is told stands.
pub trait Observer: Sync {
    /// A frame is about to be simulated, once more perhaps.
    fn begins(&self, cx: &OpcodeExecutor<'_>, code: &CodeUnit) {
        let _ = (cx, code);
    }

    /// An instruction of the innermost frame is about to be simulated.
    fn step(&self, cx: &OpcodeExecutor<'_>, instruction: &Operand) {
        let _ = (cx, instruction);
    }

    /// A statement has been put into the graph.
    fn statement(&self, cx: &OpcodeExecutor<'_>, statement: &Statement) {
        let _ = (cx, statement);
    }

    /// Something was assumed; `guard.text(cx.py, &cx.trackers)` says what.
    fn guard(&self, cx: &OpcodeExecutor<'_>, guard: &Guard) {
        let _ = (cx, guard);
    }

    /// The translation is done. It is not told of where a bug has ended it, which `stats` counts.
    fn ends(&self, cx: &OpcodeExecutor<'_>, outcome: TranslationOutcome<'_>) {
        let _ = (cx, outcome);
    }
}

/// A registration.
pub struct ObserverRegistration {
    /// The name of the item.
    pub name: &'static str,
    /// The observer.
    pub observer: &'static dyn Observer,
    /// Where it is registered.
    pub origin: RegistrationOrigin,
}

inventory::collect!(ObserverRegistration);

impl Registered for ObserverRegistration {
    fn linked(&self) -> Linked {
        Linked { registry: "observer", name: self.name, origin: self.origin }
    }
}

/// Registers a static item as an observer.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use sot_core::executor::OpcodeExecutor;
/// use sot_core::observer::Observer;
/// use sot_core::opcode::Operand;
///
/// struct Steps(AtomicU64);
///
/// impl Observer for Steps {
///     fn step(&self, _: &OpcodeExecutor<'_>, _: &Operand) {
///         self.0.fetch_add(1, Ordering::Relaxed);
///     }
/// }
///
/// static STEPS: Steps = Steps(AtomicU64::new(0));
/// sot_core::observer! { STEPS }
/// ```
#[macro_export]
macro_rules! observer {
    ($item:ident) => {
        $crate::inventory::submit! {
            $crate::observer::ObserverRegistration {
                name: stringify!($item),
                observer: &$item,
                origin: $crate::origin!(),
            }
        }
    };
}

/// All that are linked, in the order of their crates, files and lines.
pub(crate) fn all() -> Vec<&'static ObserverRegistration> {
    let mut all: Vec<_> = inventory::iter::<ObserverRegistration>.into_iter().collect();
    all.sort_by_key(|one| one.origin);
    all
}

/// How much of the present attempt has been told.
#[derive(Clone, Copy, Default)]
pub(crate) struct Told {
    statements: usize,
    guards: usize,
}

/// Tells that a frame is about to be simulated.
pub(crate) fn begins(cx: &OpcodeExecutor<'_>, code: &CodeUnit) {
    each(cx, |observer| observer.begins(cx, code));
}

/// Simulates an instruction while others watch; `None` if its opcode has no handler.
pub(crate) fn step(cx: &mut OpcodeExecutor<'_>, operand: &Operand) -> Option<Flow<Next>> {
    tell(cx);
    each(cx, |observer| observer.step(cx, operand));
    let next = cx.runtime.dispatch.simulate(cx, operand);
    tell(cx);
    next
}

/// Tells of the statements and guards that have come since, and of the end.
pub(crate) fn ends(cx: &mut OpcodeExecutor<'_>, outcome: TranslationOutcome<'_>) {
    tell(cx);
    each(cx, |observer| observer.ends(cx, outcome));
}

fn tell(cx: &mut OpcodeExecutor<'_>) {
    let told = cx.observed.told;
    let statements = cx.graph.ir.statements.get(told.statements..).unwrap_or_default();
    for statement in statements {
        each(cx, |observer| observer.statement(cx, statement));
    }
    for guard in cx.guards.since(told.guards) {
        each(cx, |observer| observer.guard(cx, guard));
    }
    cx.observed.told = Told { statements: cx.graph.ir.statements.len(), guards: cx.guards.len() };
}

fn each(cx: &OpcodeExecutor<'_>, tell: impl Fn(&dyn Observer)) {
    for registration in &cx.runtime.observers {
        watching(*registration, || tell(registration.observer));
    }
}
