//! What plug-ins use most: `use sot_core::prelude::*`.

pub use pyo3::prelude::*;

pub use crate::backend::{CallKind, ObjectTest, StateTest};
pub use crate::error::{Flow, ReasonId, Unwind};
pub use crate::executor::{object_model, BinaryOp, CallArgs, CompareOp, Name, OpcodeExecutor, UnaryOp};
pub use crate::foreign::{Foreign, ForeignFetch};
pub use crate::guard::{Guard, Identity, Test};
pub use crate::ir::Statement;
pub use crate::observer::{Observer, Outcome};
pub use crate::opcode::{Next, Operand};
pub use crate::side_effects::Effect;
pub use crate::tracker::{Key, Tracker, TrackerId};
pub use crate::variable::{GraphArgument, Rebuild, VarId, Variable};
