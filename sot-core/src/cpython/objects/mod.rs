//! The object model, for accesses that would run user code or take too long in Python.

pub(super) mod atom;
pub(super) mod callable;
pub(super) mod descriptor;
pub(super) mod dict;
pub(super) mod embedded;
pub(super) mod function;
pub(super) mod function_changes;
pub(super) mod getter;
pub(super) mod handled;
pub(super) mod interned;
pub(super) mod lookup;
pub(super) mod lru;
pub(super) mod modules;
pub(super) mod object;
pub(super) mod part;
pub(super) mod sequence_iterator;
pub(super) mod set_table;
pub(super) mod slots;
pub(super) mod type_;
pub(super) mod upcoming;
pub(super) mod weak;
