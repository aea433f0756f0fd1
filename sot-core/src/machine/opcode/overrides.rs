//! Overrides of opcode handlers, which extend or replace the simulation of an opcode.

use std::cell::Cell;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use super::{Next, OpcodeHandler, Operand};
use crate::bytecode::stack_effect;
use crate::error::{Flow, RegistrationError};
use crate::fault;
use crate::machine::executor::OpcodeExecutor;
use crate::machine::overriding::{error, Override};
use crate::origin::{LinkedRegistration, Registered, RegistrationOrigin};
use crate::version::{PyVersion, VersionRange};

/// Simulates one instruction in the place of a handler, which it may call.
pub type OverridingHandler = fn(&mut OpcodeExecutor<'_>, &Operand, &OverriddenOpcode<'_>) -> Flow<Next>;

/// A registration that is called before the handler of an opcode.
pub struct OpcodeOverride {
    /// CPython's name of the opcode.
    pub name: &'static str,
    /// Versions that the override is for.
    pub versions: VersionRange,
    /// Overrides with a higher priority are called first.
    pub priority: i32,
    /// The simulation.
    pub handler: OverridingHandler,
    /// Where it is registered.
    pub origin: RegistrationOrigin,
}

inventory::collect!(OpcodeOverride);

impl Registered for OpcodeOverride {
    fn linked(&self) -> LinkedRegistration {
        LinkedRegistration { registry: "opcode override", name: self.name, origin: self.origin }
    }
}

impl Override for OpcodeOverride {
    fn priority(&self) -> i32 {
        self.priority
    }
}

impl OpcodeOverride {
    /// Refuses a version range without any supported interpreter, because such an override is never called.
    pub(super) fn check_range(&self) -> Result<(), RegistrationError> {
        if (PyVersion::OLDEST.0..=PyVersion::NEWEST.0).any(|minor| self.versions.contains(PyVersion(minor))) {
            return Ok(());
        }
        let VersionRange { since, until } = self.versions;
        let what = format!(
            "the override of {} is for [{since}..{until}], where there is no CPython that sot supports",
            self.name
        );
        Err(error(self, what))
    }
}

/// The overrides and the handler that come after an override.
pub struct OverriddenOpcode<'a> {
    handler: &'static OpcodeHandler,
    rest: &'a [&'static OpcodeOverride],
    operand: &'a Operand,
    /// Depth of the stack before the instruction.
    found: isize,
    /// Number of items by which the stack grew in the last run of the handler.
    growth: &'a Cell<Option<isize>>,
}

impl OverriddenOpcode<'_> {
    /// Simulates the instruction as it would be without this override.
    pub fn call(&self, cx: &mut OpcodeExecutor<'_>) -> Flow<Next> {
        if depth(cx) != self.found {
            let text = format!("an override of {} calls what it overrides with another stack", self.handler.name);
            return Err(PyRuntimeError::new_err(text).into());
        }
        match self.rest.split_first() {
            Some((first, rest)) => {
                let next = OverriddenOpcode { rest, ..*self };
                cx.run_registered(*first, |cx| (first.handler)(cx, self.operand, &next))
            }
            None => {
                let next = self.handler.simulate(cx, self.operand);
                self.growth.set(Some(depth(cx) - self.found));
                next
            }
        }
    }
}

fn depth(cx: &OpcodeExecutor<'_>) -> isize {
    cx.stack.frame().stack.len() as isize
}

/// Simulates an instruction whose handler is overridden.
pub(super) fn simulate(
    cx: &mut OpcodeExecutor<'_>,
    operand: &Operand,
    handler: &'static OpcodeHandler,
    overrides: &'static [&'static OpcodeOverride],
) -> Flow<Next> {
    let (frames, found, growth) = (cx.stack.len(), depth(cx), Cell::new(None));
    let next = OverriddenOpcode { handler, rest: overrides, operand, found, growth: &growth }.call(cx)?;
    let jumps = match next {
        Next::Continue => false,
        Next::Jump(_) => true,
        Next::Return(_) | Next::Yield(_) => return Ok(next),
    };
    let grown = depth(cx) - found;
    let is_right =
        frames == cx.stack.len() && (growth.get() == Some(grown) || is_cpythons(cx.py, handler, operand, jumps, grown));
    if is_right {
        return Ok(next);
    }
    fault::running(overrides[0], || {
        let text =
            format!("overrides of {} leave the stack {grown:+} items higher, which CPython does not", handler.name);
        Err(PyRuntimeError::new_err(text).into())
    })
}

/// True if CPython's instruction makes the stack grow by this number of items.
fn is_cpythons(py: Python<'_>, handler: &OpcodeHandler, operand: &Operand, jumps: bool, grown: isize) -> bool {
    let declared = handler
        .description
        .picture
        .map(|(inputs, outputs)| outputs.of(operand.arg) as isize - inputs.of(operand.arg) as isize);
    let expected =
        declared.or_else(|| stack_effect(py, operand.opcode, operand.arg, jumps).ok().map(|effect| effect as isize));
    expected == Some(grown)
}
