//! The one module that knows CPython's insides: the frame hook (PEP 523), state kept with code objects, and the object
//! model where Python attribute access would run user code. All `unsafe` of the project is here, behind a safe face.
//!
//! One file per minor version (`v38.rs` … `v313.rs`) holds the struct layouts under the same item names; `heap_frame.rs`
//! (to 3.10) and `stack_frame.rs` (from 3.11) work on them. [`self_test`] compares them with what Python says.
#![allow(unsafe_code, reason = "the hook and the layouts live here, and nowhere else")]

#[cfg(Py_GIL_DISABLED)]
compile_error!("free-threaded builds are not supported: state of code objects is counted under the GIL");

mod c_stack;
mod callable;
mod chain;
mod code_state;
mod dict;
mod embedded;
mod fresh_frame;
mod function;
mod getter;
mod handled;
mod hook;
mod interrupt;
mod lru;
mod modules;
mod object;
mod part;
mod replace;
mod self_test;
mod sequence_iterator;
mod session;
mod signature;
mod snapshot;
mod tracing;
mod type_;
mod upcoming;
mod weak;

#[cfg(not(Py_3_11))]
mod heap_frame;
#[cfg(not(Py_3_11))]
use heap_frame as frames;
#[cfg(Py_3_11)]
mod stack_frame;
#[cfg(Py_3_11)]
use stack_frame as frames;

#[cfg(not(Py_3_9))]
mod v38;
#[cfg(not(Py_3_9))]
use v38 as layout;
#[cfg(all(Py_3_9, not(Py_3_10)))]
mod v39;
#[cfg(all(Py_3_9, not(Py_3_10)))]
use v39 as layout;
#[cfg(all(Py_3_10, not(Py_3_11)))]
mod v310;
#[cfg(all(Py_3_10, not(Py_3_11)))]
use v310 as layout;
#[cfg(all(Py_3_11, not(Py_3_12)))]
mod v311;
#[cfg(all(Py_3_11, not(Py_3_12)))]
use v311 as layout;
#[cfg(all(Py_3_12, not(Py_3_13)))]
mod v312;
#[cfg(all(Py_3_12, not(Py_3_13)))]
use v312 as layout;
#[cfg(Py_3_13)]
mod v313;
#[cfg(Py_3_13)]
use v313 as layout;

#[cfg(Py_3_9)]
mod eval_slot;

pub use c_stack::{has_stack_to_begin, has_stack_to_go_on};
pub use callable::{call_giving, call_method_with_names, call_with_names, call_with_vector, fastcall, fastcall_taking};
pub use code_state::{code_state, remove_code_state, set_code_state, StateRef};
pub use dict::{dict_get, dict_lacks, proxied_dict};
pub use embedded::{ArrayField, Embedded, Held, KeptNumber, NumberField, ThreadFlag, ThreadNumber};
pub use fresh_frame::FreshFrame;
pub use function::{
    bound_method, c_code, cell_contents, current_frame, current_globals, function_closure, function_code,
    function_defaults, function_globals, function_kwdefaults, is_cell, new_cell, new_function, set_cell_contents,
};
pub use getter::Getter;
pub use handled::is_handling;
pub use hook::{counts, last_panic, panics, set_evaluator, Counts, FrameEvaluator, Verdict};
pub use interrupt::{interrupt_again, is_interrupt};
pub use lru::LruCache;
pub use modules::import;
pub use object::{generic_getattr, instance_dict, is_deque, new_slice, refcount};
pub use part::Part;
pub use replace::use_reference_method;
pub use self_test::{self_test, LayoutError};
pub use session::{enter, is_active, suspend, Active, HookError, Suspended};
pub use signature::{flatten_signature, total_arg_count};
pub use snapshot::{blind_spot, Changed, HeldPlace, Place, Reading, Recorder, Snapshot};
pub use tracing::{has_debugger, is_profiled, is_traced};
pub use type_::{
    builtin_type_name, class_attr, class_dict, forget_subclass, full_type_name, getattr_hook, has_finalizer,
    is_data_descriptor, is_descriptor, is_heap_type, is_subtype, qualified_name, special_method, type_lookup,
    type_name, uses_generic_getattr, uses_generic_setattr, GetattrHook,
};
pub use upcoming::{iterated, iterator_types, upcoming, Upcoming};
pub use weak::{referents, supports_weakref, OnDeath, WeakRef};
