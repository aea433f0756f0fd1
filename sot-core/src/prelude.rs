//! What plug-ins use most: `use sot_core::prelude::*`.

pub use pyo3::prelude::*;

pub use crate::backend::{CallKind, ObjectTest, StateTest};
pub use crate::error::{Flow, ReasonId, Unwind};
pub use crate::foreign::{Foreign, ForeignFetch};
pub use crate::guard::{Guard, Identity, Test};
pub use crate::ir::Statement;
pub use crate::machine::executor::{object_model, BinaryOp, CallArgs, CompareOp, Name, OpcodeExecutor, UnaryOp};
pub use crate::machine::observer::{Observer, TranslationOutcome};
pub use crate::machine::opcode::{Next, Operand};
pub use crate::machine::variable::{GraphArgument, Rebuild, VarId, Variable};
pub use crate::side_effects::Effect;
pub use crate::tracker::{Key, Tracker, TrackerId};
