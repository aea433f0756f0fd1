//! Observers watch translations without taking part in them. A hit is not observed. Where no observer is linked, the
//! cost is one comparison per instruction.

use crate::bytecode::CodeUnit;
use crate::error::{Flow, Reason};
use crate::fault::watching;
use crate::guard::Guard;
use crate::ir::Statement;
use crate::machine::executor::OpcodeExecutor;
use crate::machine::opcode::{Next, Operand};
use crate::origin::{LinkedRegistration, Registered, RegistrationOrigin};

/// The outcome of a translation.
#[derive(Clone, Copy, Debug)]
pub enum TranslationOutcome<'a> {
    /// The frame is translated to its end, as one graph or several.
    Whole,
    /// The frame is translated up to a graph break, and a resume function continues the frame.
    Broken(&'a Reason),
    /// The frame is left to CPython.
    LeftAlone(&'a Reason),
}

/// Watches translations. Methods report what has happened and change nothing; code of the program that they run is
/// not translated. A simulation may be repeated, so steps, statements and guards may be reported again, and may
/// belong to an attempt that was abandoned. What [`Observer::ends`] is given is final.
pub trait Observer: Sync {
    /// A frame is about to be simulated, perhaps not for the first time.
    fn begins(&self, cx: &OpcodeExecutor<'_>, code: &CodeUnit) {
        let _ = (cx, code);
    }

    /// An instruction of the innermost frame is about to be simulated.
    fn step(&self, cx: &OpcodeExecutor<'_>, instruction: &Operand) {
        let _ = (cx, instruction);
    }

    /// A statement was added to the graph.
    fn statement(&self, cx: &OpcodeExecutor<'_>, statement: &Statement) {
        let _ = (cx, statement);
    }

    /// A guard was added; `guard.text(cx.py, &cx.trace.trackers)` is its text.
    fn guard(&self, cx: &OpcodeExecutor<'_>, guard: &Guard) {
        let _ = (cx, guard);
    }

    /// The translation is complete. Not called if a bug has ended the translation, which `stats` counts.
    fn ends(&self, cx: &OpcodeExecutor<'_>, outcome: TranslationOutcome<'_>) {
        let _ = (cx, outcome);
    }
}

/// The registration of an observer.
pub struct ObserverRegistration {
    /// Name of the static item.
    pub name: &'static str,
    /// The observer.
    pub observer: &'static dyn Observer,
    /// Where it is registered.
    pub origin: RegistrationOrigin,
}

inventory::collect!(ObserverRegistration);

impl Registered for ObserverRegistration {
    fn linked(&self) -> LinkedRegistration {
        LinkedRegistration { registry: "observer", name: self.name, origin: self.origin }
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

/// Returns all linked observers, in the order of their crates, files and lines.
pub(crate) fn all() -> Vec<&'static ObserverRegistration> {
    let mut all: Vec<_> = inventory::iter::<ObserverRegistration>.into_iter().collect();
    all.sort_by_key(|one| one.origin);
    all
}

/// Numbers of statements and guards of the present attempt that have been reported to observers.
#[derive(Clone, Copy, Default)]
pub(crate) struct ObserverProgress {
    statements: usize,
    guards: usize,
}

/// Tells observers that a frame is about to be simulated.
pub(crate) fn begins(cx: &OpcodeExecutor<'_>, code: &CodeUnit) {
    each(cx, |observer| observer.begins(cx, code));
}

/// Simulates an instruction and tells observers of it; `None` if its opcode has no handler.
pub(crate) fn step(cx: &mut OpcodeExecutor<'_>, operand: &Operand) -> Option<Flow<Next>> {
    tell(cx);
    each(cx, |observer| observer.step(cx, operand));
    let next = cx.runtime.dispatch.simulate(cx, operand);
    tell(cx);
    next
}

/// Tells observers of the statements and guards added since the last instruction, and of the end.
pub(crate) fn ends(cx: &mut OpcodeExecutor<'_>, outcome: TranslationOutcome<'_>) {
    tell(cx);
    each(cx, |observer| observer.ends(cx, outcome));
}

fn tell(cx: &mut OpcodeExecutor<'_>) {
    let told = cx.observed.told;
    let statements = cx.trace.graph.ir.statements.get(told.statements..).unwrap_or_default();
    for statement in statements {
        each(cx, |observer| observer.statement(cx, statement));
    }
    for guard in cx.trace.guards.since(told.guards) {
        each(cx, |observer| observer.guard(cx, guard));
    }
    cx.observed.told =
        ObserverProgress { statements: cx.trace.graph.ir.statements.len(), guards: cx.trace.guards.len() };
}

fn each(cx: &OpcodeExecutor<'_>, tell: impl Fn(&dyn Observer)) {
    for registration in &cx.runtime.observers {
        watching(*registration, || tell(registration.observer));
    }
}
