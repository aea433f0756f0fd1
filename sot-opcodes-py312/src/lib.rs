//! Handlers of the opcodes that are new or have changed in CPython 3.11 to 3.13. The files have the names of those in
//! `sot-opcodes-py38`, which holds the handlers of all unchanged opcodes.

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
