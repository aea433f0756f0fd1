//! Names that plug-ins use most: `use sot_core::prelude::*`, besides `sot_variables::prelude` and the macros
//! [`builtin!`](crate::builtin!), [`variable_kind!`](crate::variable_kind!), [`opcode!`](crate::opcode!),
//! [`observer!`](crate::observer!), [`reason!`](crate::reason!) and [`backend!`](crate::backend!).
//!
//! | you write | with |
//! |---|---|
//! | a handler of a builtin | `cx`: [`OpcodeExecutor`], `args`: [`CallArgs`]; it returns a [`VarId`], or an [`Unwind`]: a graph break with a [`ReasonId`], or an exception of the program by [`OpcodeExecutor::raise`] |
//! | a kind | [`Variable`], whose `guard` adds a [`Test`] to `cx.trace.guards`; values in it are wrapped by [`Trace::wrap`] with a [`Tracker`] |
//! | a fetch or a test of the plug-in's own | [`ForeignFetch`] in [`Tracker::Foreign`], [`ObjectTest`] in [`Test::Object`], [`ObjectsTest`] in [`Test::Objects`] |
//! | a value that the trace makes | [`Trace::produce`]; new code rebuilds it by [`Rebuild`] and [`Argument`] in [`Variable::reconstruct`] |
//! | a write to a container | `cx.trace.vars.set` and [`Effect::Contents`]; new code repeats it in [`Variable::restore_contents`] |
//! | a handler of an opcode | `op`: [`Operand`]; it returns values or a [`Next`]; operators are [`BinaryOp`], [`UnaryOp`], [`CompareOp`] |
//! | an observer | [`Observer`], which is shown a [`Statement`], a [`Guard`] and a [`TranslationOutcome`] |
//!
//! [`object_model`] has CPython's rules, which apply where a kind overrides nothing. A backend also needs
//! `sot_core::backend`.
//!
//! A handler that cannot continue returns an error that tells whether this is a limit of the tracer or an exception of
//! the program:
//!
//! ```
//! use pyo3::exceptions::PyValueError;
//! use sot_core::prelude::*;
//!
//! sot_core::builtin! { FACTORIAL = "math:factorial" => |cx, args| {
//!     let [n] = args.exactly("factorial")?;
//!     // The call runs in CPython, and the graph goes on behind it.
//!     let Some(n) = cx.known(n)? else {
//!         return Err(Unwind::break_graph(ReasonId::UnsupportedCall, "factorial() of a number that is not known"));
//!     };
//!     match n.extract::<i64>()? {
//!         // The program may catch it.
//!         ..=-1 => Err(cx.raise(PyValueError::new_err("factorial() not defined for negative values"))),
//!         n => cx.trace.integer((1..=n).product()),
//!     }
//! } }
//! ```

pub use pyo3::prelude::*;

pub use crate::backend::{CallKind, ObjectTest, StateTest};
pub use crate::error::{Flow, ReasonId, Unwind};
pub use crate::foreign::{Foreign, ForeignFetch};
pub use crate::guard::{Guard, Identity, ObjectsTest, Test};
pub use crate::ir::Statement;
pub use crate::machine::executor::{object_model, BinaryOp, CallArgs, CompareOp, Name, OpcodeExecutor, Trace, UnaryOp};
pub use crate::machine::observer::{Observer, TranslationOutcome};
pub use crate::machine::opcode::{Next, Operand};
pub use crate::machine::variable::{Argument, Form, GraphArgument, Rebuild, VarId, Variable, VariableKind};
pub use crate::side_effects::Effect;
pub use crate::tracker::{Key, Tracker, TrackerId};
