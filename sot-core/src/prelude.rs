//! What plug-ins use most: `use sot_core::prelude::*`, beside `sot_variables::prelude` and the macros
//! [`builtin!`](crate::builtin!), [`variable_kind!`](crate::variable_kind!), [`opcode!`](crate::opcode!),
//! [`observer!`](crate::observer!) and [`backend!`](crate::backend!).
//!
//! | you write | with |
//! |---|---|
//! | a handler of a builtin | `cx`: [`OpcodeExecutor`], `args`: [`CallArgs`]; it gives a [`VarId`], or an [`Unwind`]: a graph break with a [`ReasonId`], an exception of the program's by [`OpcodeExecutor::raise`] |
//! | a kind | [`Variable`], whose `guard` adds a [`Test`] to `cx.guards`; values in it by [`OpcodeExecutor::wrap`] with a [`Tracker`] |
//! | a fetch or a test of its own | [`ForeignFetch`] in [`Tracker::Foreign`], [`ObjectTest`] in [`Test::Object`], [`ObjectsTest`] in [`Test::Objects`] |
//! | what new code makes anew | [`Rebuild`] in [`Variable::reconstruct`] |
//! | a handler of an opcode | `op`: [`Operand`]; it gives values or a [`Next`]; operators are [`BinaryOp`], [`UnaryOp`], [`CompareOp`] |
//! | an observer | [`Observer`], which is shown a [`Statement`], a [`Guard`] and a [`TranslationOutcome`] |
//!
//! What CPython does where a kind says nothing is in [`object_model`]. A backend needs `sot_core::backend`, too.
//!
//! A handler says whose fault it is that it cannot go on:
//!
//! ```
//! use pyo3::exceptions::PyValueError;
//! use sot_core::prelude::*;
//!
//! sot_core::builtin! { FACTORIAL = "math:factorial" => |cx, args| {
//!     let [n] = args.exactly(cx, "factorial")?;
//!     // The call runs in CPython, and the graph goes on behind it.
//!     let Some(n) = cx.known(n)? else {
//!         return Err(Unwind::break_graph(ReasonId::UnsupportedCall, "factorial() of a number that is not known"));
//!     };
//!     match n.extract::<i64>()? {
//!         // The program may catch it.
//!         ..=-1 => Err(cx.raise(PyValueError::new_err("factorial() not defined for negative values"))),
//!         n => cx.integer((1..=n).product()),
//!     }
//! } }
//! ```

pub use pyo3::prelude::*;

pub use crate::backend::{CallKind, ObjectTest, StateTest};
pub use crate::error::{Flow, ReasonId, Unwind};
pub use crate::foreign::{Foreign, ForeignFetch};
pub use crate::guard::{Guard, Identity, ObjectsTest, Test};
pub use crate::ir::Statement;
pub use crate::machine::executor::{object_model, BinaryOp, CallArgs, CompareOp, Name, OpcodeExecutor, UnaryOp};
pub use crate::machine::observer::{Observer, TranslationOutcome};
pub use crate::machine::opcode::{Next, Operand};
pub use crate::machine::variable::{Form, GraphArgument, Rebuild, VarId, Variable, VariableKind};
pub use crate::side_effects::Effect;
pub use crate::tracker::{Key, Tracker, TrackerId};
