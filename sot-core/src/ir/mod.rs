//! The intermediate representation: tensor work of a translation as statements, and metas of tensors. It is plain
//! data; `graph` records it, `backend` builds it.

mod meta;
mod statement_ir;

pub use meta::{CallKind, GradientFlow, TensorMeta};
pub use statement_ir::{Exported, Statement, StatementIR, StatementKind};
