//! Handlers of the opcodes that are new or mean something else in CPython 3.11 to 3.13; the files are named as in the
//! crate they override, which holds all that is unchanged.

mod attribute;
mod binary;
mod call;
mod class;
mod compare;
mod container;
mod context_manager;
mod exception;
mod format;
mod function;
mod generator;
mod intrinsics;
mod iteration;
mod jump;
mod load_store;
mod pattern;
mod stack;
