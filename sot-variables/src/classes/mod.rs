//! Classes, their instances, and exceptions.

pub mod class;
pub mod class_statement;
pub mod exception;
pub mod exception_group;
pub mod exception_replica;
pub mod instance;
pub mod instance_dict;
pub mod object;
pub(crate) mod simple_namespace;
pub mod stand_in;
pub mod subclass;
