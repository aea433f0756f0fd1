//! Classes, their instances, and exceptions.

/// Registers the constructors (`type.__new__`) of a family of types with a single function, which receives the path
/// of the type.
macro_rules! constructors {
    ($new:path; $($item:ident = $path:literal;)+) => {$(
        sot_core::builtin! { $item = $path => |cx, args| $new(cx, $path, args) }
    )+};
}

pub mod class;
pub mod class_statement;
pub(crate) mod decimal;
pub mod exception;
pub mod instance;
pub mod instance_dict;
pub mod object;
mod registered_value;
pub(crate) mod simple_namespace;
pub mod stand_in;
pub mod subclass;
