//! The intermediate representation: the tensor work of a translation as statements, with what is known of the tensors.
//! It is data; `graph` records it, `backend` builds it.

mod meta;
mod statement_ir;

pub use meta::{CallKind, GradientFlow, TensorMeta};
pub use statement_ir::{Exported, Statement, StatementIR, StatementKind};
