//! Opcode handlers: their registration, the stack picture that each declares, and the frozen table of the running
//! interpreter. An opcode without a handler is a graph break, never a crash.

mod overrides;

use once_cell::sync::OnceCell;
use pyo3::prelude::*;

pub use crate::bytecode::{
    describe, Access, AtBreak, Branch, BranchTest, ByArgument, Count, Description, Locals, Movement, Native, Quiet,
    StackPicture,
};

use crate::bytecode::{set_descriptions, stack_effect, Label, Opcodes};

pub use crate::bytecode::OpcodeSet;
pub use overrides::{OpcodeOverride, OverriddenOpcode, OverridingHandler};

use crate::error::{Flow, RegistrationError, Unwind};
use crate::machine::executor::OpcodeExecutor;
use crate::machine::overriding::{error, sort};
use crate::machine::variable::VarId;
use crate::origin::{LinkedRegistration, Registered, RegistrationOrigin};
use crate::version::{PyVersion, VersionRange};

/// The instruction that a handler simulates.
#[derive(Clone, Copy, Debug)]
pub struct Operand {
    /// Number of the opcode in the running interpreter.
    pub opcode: u8,
    /// The argument, with `EXTENDED_ARG` prefixes folded in.
    pub arg: u32,
    /// The position of the instruction.
    pub at: Label,
    /// The jump target, for jumps.
    pub target: Option<Label>,
}

impl Operand {
    /// The jump target.
    pub fn jump(&self) -> Flow<Label> {
        self.target.ok_or_else(|| {
            Unwind::from(pyo3::exceptions::PyRuntimeError::new_err("a jump handler on an opcode that does not jump"))
        })
    }
}

/// Where simulation goes after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// To the instruction that follows.
    Continue,
    /// To a jump target.
    Jump(Label),
    /// Out of the frame, with the return value.
    Return(VarId),
    /// Out of a generator frame, which can be resumed, with the yielded value.
    Yield(VarId),
}

/// The function that simulates one opcode.
pub type Handler = fn(&mut OpcodeExecutor<'_>, &Operand) -> Flow<Next>;

/// The registration of a handler.
pub struct OpcodeHandler {
    /// CPython's name of the opcode.
    pub name: &'static str,
    /// Versions that the handler is for.
    pub versions: VersionRange,
    /// Properties of the opcode besides its simulation.
    pub description: Description,
    /// The simulation.
    pub handler: Handler,
    /// Where it is registered.
    pub origin: RegistrationOrigin,
}

inventory::collect!(OpcodeHandler);

impl Registered for OpcodeHandler {
    fn linked(&self) -> LinkedRegistration {
        LinkedRegistration { registry: "opcode", name: self.name, origin: self.origin }
    }
}

impl OpcodeHandler {
    #[inline]
    fn simulate(&self, cx: &mut OpcodeExecutor<'_>, operand: &Operand) -> Flow<Next> {
        cx.run_registered(self, |cx| (self.handler)(cx, operand))
    }
}

static TABLE: OnceCell<DispatchTable> = OnceCell::new();

/// The handlers of the running interpreter by opcode number, with their overrides.
pub struct DispatchTable {
    handlers: [Option<&'static OpcodeHandler>; 256],
    /// Overrides by opcode number, the first to be called first.
    overrides: [Vec<&'static OpcodeOverride>; 256],
}

impl DispatchTable {
    /// Freezes the registrations that fit `version`, for the lifetime of the process.
    pub fn start(py: Python<'_>, version: PyVersion) -> Result<&'static DispatchTable, RegistrationError> {
        let table = TABLE.get_or_try_init(|| Self::freeze(py, version))?;
        set_descriptions(table.iter().map(|(opcode, handler)| (opcode, &handler.description)));
        Ok(table)
    }

    /// Freezes the registrations that fit `version`.
    pub fn freeze(py: Python<'_>, version: PyVersion) -> Result<DispatchTable, RegistrationError> {
        let overrides = inventory::iter::<OpcodeOverride>.into_iter();
        Self::from_handlers(py, version, inventory::iter::<OpcodeHandler>.into_iter(), overrides)
    }

    /// Freezes the given registrations; [`DispatchTable::freeze`] passes all that are linked.
    pub fn from_handlers(
        py: Python<'_>,
        version: PyVersion,
        registered: impl Iterator<Item = &'static OpcodeHandler>,
        overrides: impl Iterator<Item = &'static OpcodeOverride>,
    ) -> Result<DispatchTable, RegistrationError> {
        let mut handlers: [Option<&'static OpcodeHandler>; 256] = [None; 256];
        let opcodes = Opcodes::get(py);
        let mut sorted: Vec<_> = registered.filter(|h| h.versions.contains(version)).collect();
        sorted.sort_by_key(|handler| handler.linked());
        for handler in sorted {
            let number = opcodes
                .number(handler.name)
                .ok_or_else(|| error(handler, format!("CPython {version} has no opcode {}", handler.name)))?;
            if let Some(first) = handlers[number as usize] {
                let text = format!("{} already has a handler for CPython {version}, at {}", handler.name, first.origin);
                return Err(error(handler, text));
            }
            check_picture(py, number, handler)?;
            handlers[number as usize] = Some(handler);
        }
        let mut table = DispatchTable { handlers, overrides: std::array::from_fn(|_| Vec::new()) };
        for one in overrides {
            table.add_override(py, version, one)?;
        }
        table.overrides.iter_mut().for_each(|of_opcode| sort(of_opcode));
        Ok(table)
    }

    fn add_override(
        &mut self,
        py: Python<'_>,
        version: PyVersion,
        one: &'static OpcodeOverride,
    ) -> Result<(), RegistrationError> {
        one.check_range()?;
        if !one.versions.contains(version) {
            return Ok(());
        }
        let Some(number) = Opcodes::get(py).number(one.name) else {
            return Err(error(
                one,
                format!("there is nothing to override: CPython {version} has no opcode {}", one.name),
            ));
        };
        if self.handlers[number as usize].is_none() {
            let text = format!("there is nothing to override: {} has no handler for CPython {version}", one.name);
            return Err(error(one, text));
        }
        self.overrides[number as usize].push(one);
        Ok(())
    }

    /// Simulates an instruction; `None` if its opcode has no handler.
    #[inline]
    pub(crate) fn simulate(&'static self, cx: &mut OpcodeExecutor<'_>, operand: &Operand) -> Option<Flow<Next>> {
        let handler = self.handlers[operand.opcode as usize]?;
        let overrides = &self.overrides[operand.opcode as usize];
        if overrides.is_empty() {
            return Some(handler.simulate(cx, operand));
        }
        Some(overrides::simulate(cx, operand, handler, overrides))
    }

    /// Returns the handler of an opcode.
    pub fn get(&self, opcode: u8) -> Option<&'static OpcodeHandler> {
        self.handlers[opcode as usize]
    }

    /// Returns the overrides of an opcode, the first to be called first.
    pub fn overrides(&self, opcode: u8) -> &[&'static OpcodeOverride] {
        &self.overrides[opcode as usize]
    }

    /// Returns all handlers with their opcode numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &'static OpcodeHandler)> + '_ {
        self.handlers.iter().enumerate().filter_map(|(n, h)| h.map(|h| (n as u8, h)))
    }
}

/// Compares the declared picture with CPython's own stack effect, for some arguments.
fn check_picture(py: Python<'_>, opcode: u8, handler: &OpcodeHandler) -> Result<(), RegistrationError> {
    let Some((inputs, outputs)) = handler.description.picture else { return Ok(()) };
    let has_arg = Opcodes::get(py).info(opcode).has_arg;
    let arguments: &[u32] = if has_arg { &[0, 1, 2, 3, 8] } else { &[0] };
    for &arg in arguments {
        // CPython refuses some arguments of some opcodes; these say nothing about the picture.
        let Ok(effect) = stack_effect(py, opcode, arg, false) else { continue };
        let declared = outputs.of(arg) as i32 - inputs.of(arg) as i32;
        if declared != effect {
            let name = handler.name;
            let text =
                format!("{name} declares a stack effect of {declared:+} for argument {arg}, CPython's is {effect:+}");
            return Err(error(handler, text));
        }
    }
    Ok(())
}

/// What the body of a handler may evaluate to if its picture shows `N` results.
pub trait Outcome<const N: usize> {
    /// Pushes the results and returns where the simulation goes.
    fn deliver(self, cx: &mut OpcodeExecutor<'_>) -> Next;
}

impl Outcome<0> for () {
    fn deliver(self, _: &mut OpcodeExecutor<'_>) -> Next {
        Next::Continue
    }
}

impl Outcome<0> for Next {
    fn deliver(self, _: &mut OpcodeExecutor<'_>) -> Next {
        self
    }
}

impl Outcome<1> for VarId {
    fn deliver(self, cx: &mut OpcodeExecutor<'_>) -> Next {
        cx.stack.push(self);
        Next::Continue
    }
}

impl<const N: usize> Outcome<N> for [VarId; N] {
    fn deliver(self, cx: &mut OpcodeExecutor<'_>) -> Next {
        for item in self {
            cx.stack.push(item);
        }
        Next::Continue
    }
}

/// Registers a handler: the opcode's name, its versions, its stack picture, and the simulation.
///
/// ```
/// use sot_core::opcode;
/// use sot_core::opcode::Next;
///
/// opcode! { ROT_TWO [3.8..3.11] (below, top -- first, second) => |_cx, _| Ok([top, below]) }
/// opcode! { POP_TOP [3.8..3.14] (value -- ) => |_cx, _| { let _ = value; Ok(()) } }
/// opcode! { NOP [3.8..3.14] (..) => |_cx, _| Ok(Next::Continue) }
/// ```
/// Names in the picture are variables in the body, the deepest item first. `[items]` stands for as many items as the
/// argument says. `(..)` means that the body moves the stack itself. The body evaluates to a `Flow` of `()`, one
/// `VarId`, an array of them, or a [`Next`](crate::opcode::Next).
///
/// Behind the picture come other properties of the instruction, as calls of methods of [`Description`]:
///
/// ```
/// use sot_core::opcode;
/// use sot_core::opcode::{BranchTest, Next};
///
/// opcode! {
///     POP_JUMP_IF_TRUE [3.8..3.14] (value -- ) .branch(BranchTest::Truth(true))
///         => |_cx, op| { let _ = value; op.jump().map(Next::Jump) }
/// }
/// ```
///
/// Any number of crates may override a handler. The override with the highest priority (default 0) is called first;
/// overrides of one priority are ordered by the names of their crates. `next.call(cx)` simulates the instruction as
/// it would be without the override. Declared properties of the instruction, such as its stack effect, stay in force.
///
/// ```
/// use sot_core::opcode;
///
/// opcode! { override POP_TOP [3.8..3.14] => |cx, _, next| { println!("{:?}", cx.stack.locations()); next.call(cx) } }
/// opcode! { override POP_TOP [3.8..3.14] priority 10 => |cx, _, next| next.call(cx) }
/// ```
#[macro_export]
macro_rules! opcode {
    (override $name:ident [$since:literal .. $until:literal] => |$cx:ident, $op:pat_param, $next:ident| $body:expr) => {
        $crate::opcode! { override $name [$since .. $until] priority 0 => |$cx, $op, $next| $body }
    };
    (override $name:ident [$since:literal .. $until:literal] priority $priority:literal
        => |$cx:ident, $op:pat_param, $next:ident| $body:expr) => {
        $crate::inventory::submit! {
            $crate::opcode::OpcodeOverride {
                name: stringify!($name),
                versions: $crate::opcode::versions(stringify!($since), stringify!($until)),
                priority: $priority,
                handler: |$cx: &mut $crate::executor::OpcodeExecutor<'_>,
                          $op: &$crate::opcode::Operand,
                          $next: &$crate::opcode::OverriddenOpcode<'_>|
                 -> $crate::error::Flow<$crate::opcode::Next> { $body },
                origin: $crate::origin!(),
            }
        }
    };
    ($name:ident [$since:literal .. $until:literal] (..) $(.$part:ident($($value:expr),*))*
        => |$cx:ident, $op:pat_param| $body:expr) => {
        $crate::opcode!(@submit $name, $since, $until,
            ($crate::opcode::Description::of(None) $(.$part($($value),*))*),
            |cx, operand| {
                let $cx = cx;
                let $op = operand;
                let next: $crate::error::Flow<$crate::opcode::Next> = $body;
                next
            });
    };
    ($name:ident [$since:literal .. $until:literal] ($($input:ident),* -- $($output:ident),*)
        $(.$part:ident($($value:expr),*))* => |$cx:ident, $op:pat_param| $body:expr) => {
        $crate::opcode!(@pictured $name, $since, $until, Fixed, [$($input)*], [$($output)*], [$(.$part($($value),*))*],
            |cx, operand| {
                let [$($input),*] = cx.stack.pop_array()?;
                let $cx = &mut *cx;
                let $op = operand;
                $body
            });
    };
    ($name:ident [$since:literal .. $until:literal] ($($input:ident,)* [$items:ident] -- $($output:ident),*)
        $(.$part:ident($($value:expr),*))* => |$cx:ident, $op:pat_param| $body:expr) => {
        $crate::opcode!(@pictured $name, $since, $until, PlusArg, [$($input)*], [$($output)*], [$(.$part($($value),*))*],
            |cx, operand| {
                let $items = cx.stack.pop_many(operand.arg as usize)?;
                let [$($input),*] = cx.stack.pop_array()?;
                let $cx = &mut *cx;
                let $op = operand;
                $body
            });
    };
    (@pictured $name:ident, $since:literal, $until:literal, $count:ident, [$($input:ident)*], [$($output:ident)*],
        [$($parts:tt)*], |$cx:ident, $operand:ident| $outcome:block) => {
        $crate::opcode!(@submit $name, $since, $until,
            ($crate::opcode::Description::of(Some((
                $crate::opcode::Count::$count($crate::opcode!(@count $($input)*)),
                $crate::opcode::Count::Fixed($crate::opcode!(@count $($output)*)),
            ))) $($parts)*),
            |$cx, $operand| {
                let outcome: $crate::error::Flow<_> = $outcome;
                let outcome = outcome?;
                Ok($crate::opcode::Outcome::<{ $crate::opcode!(@count $($output)*) as usize }>::deliver(outcome, $cx))
            });
    };
    (@count $($item:ident)*) => { 0u32 $(+ $crate::opcode!(@one $item))* };
    (@one $item:ident) => { 1u32 };
    (@submit $name:ident, $since:literal, $until:literal, $description:expr, |$cx:ident, $operand:ident| $body:block) => {
        const _: () = {
            fn simulate(
                $cx: &mut $crate::executor::OpcodeExecutor<'_>,
                $operand: &$crate::opcode::Operand,
            ) -> $crate::error::Flow<$crate::opcode::Next> $body

            $crate::inventory::submit! {
                $crate::opcode::OpcodeHandler {
                    name: stringify!($name),
                    versions: $crate::opcode::versions(stringify!($since), stringify!($until)),
                    description: $description,
                    handler: simulate,
                    origin: $crate::origin!(),
                }
            }
        };
    };
}

/// Returns the range between two version literals. A literal that is no version stops the build.
#[must_use]
pub const fn versions(since: &str, until: &str) -> VersionRange {
    match (PyVersion::parse(since), PyVersion::parse(until)) {
        (Some(since), Some(until)) => VersionRange { since, until },
        _ => panic!("expected versions such as [3.8..3.11]"),
    }
}
