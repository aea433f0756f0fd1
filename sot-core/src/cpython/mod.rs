//! The only module that knows CPython's internals: the frame hook (PEP 523), state attached to code objects, and the
//! object model where Python's attribute access would run user code. All `unsafe` of the project is here, behind safe
//! functions.
//!
//! `SAFETY` sentences name the condition that holds, in these words:
//!
//! - *A live object* is behind a `Bound` or `Borrowed`, which holds a reference and shows that the GIL is held. A C
//!   function that asks for objects and the GIL may be called with it. *A live type* is one, or the type of one.
//! - *Guaranteed by the caller* refers to the `# Safety` section of the function.
//! - An *owned* answer is a new reference, which `from_owned_ptr` takes over. A *borrowed* answer belongs to somebody
//!   else, and `from_borrowed_ptr` takes a reference of its own before that can change.
//!
//! Each minor version has a file of struct layouts (`layout/v38.rs` … `v313.rs`) with the same item names.
//! `hook/heap_frame.rs` (up to 3.10) and `hook/stack_frame.rs` (from 3.11 on) use them. [`self_test`] compares the
//! layouts with what Python reports.
#![allow(unsafe_code, reason = "the hook and the layouts live here, and nowhere else")]

#[cfg(Py_GIL_DISABLED)]
compile_error!("free-threaded builds are not supported: state of code objects is counted under the GIL");

mod hook;
mod layout;
mod objects;
mod snapshot;

pub use hook::c_stack::{has_stack_to_begin, has_stack_to_go_on, has_stack_to_look};
pub use hook::code_state::{code_state, remove_code_state, set_code_state, CodeState, StateRef};
pub(crate) use hook::errno::KeptErrno;
pub use hook::fresh_frame::FreshFrame;
pub use hook::graph_call::{graph_function, take_graph_error};
pub(crate) use hook::graph_call::{graph_function_of, is_graph_function, GraphFailure};
pub use hook::idle::forget_idle_code;
pub use hook::recursion::forget_overflow;
pub use hook::refused::{refusing, RefusedCode};
pub use hook::replace::use_reference_method;
pub use hook::self_test::{self_test, LayoutError};
pub use hook::session::{begin_disabled, end_disabled, enter, is_active, suspend, Active, HookError, Suspended};
pub use hook::signals::{defer_signals, has_signals, signal_waits, take_held, Deferred};
pub use hook::signature::{flatten_signature, total_arg_count};
pub use hook::thread_exceptions::{hold_exceptions, HeldExceptions};
pub use hook::times::{call_times, forget_call_times, time_calls, CallTimes};
pub use hook::tracing::{has_debugger, is_profiled, is_traced};
pub use hook::{counts, last_panic, panics, set_evaluator, Counts, FrameEvaluator, Verdict};
pub use objects::atom::{is_atom, is_number, is_text};
pub use objects::callable::{
    call_giving, call_giving_arguments, call_method_with_names, call_with_names, call_with_vector, fastcall,
    fastcall_taking,
};
pub use objects::descriptor::DescriptorKind;
pub use objects::dict::{all_keys, dict_get, dict_lacks, is_kept_under, proxied_dict, same_text};
pub use objects::embedded::{
    ArrayField, Embedded, EmbeddedNumber, EmbeddedObject, NumberField, SharedNumber, SharedValue, ThreadFlag,
    ThreadNumber,
};
pub use objects::function::{
    bound_method, c_code, cell_contents, current_frame, current_globals, function_closure, function_code,
    function_defaults, function_globals, function_kwdefaults, is_cell, new_cell, new_frame, new_function,
    set_cell_contents,
};
pub use objects::function_changes::on_function_change;
pub use objects::getter::Getter;
pub use objects::handled::is_handling;
pub use objects::interned::interned;
pub use objects::lookup::{dict_has, set_has};
pub use objects::lru::LruCache;
pub use objects::modules::{builtin, import, is_imported, keep_builtins};
pub use objects::object::{
    generic_getattr, held_objects, instance_dict, instance_dict_if_made, is_deque, new_slice, refcount,
};
pub use objects::part::Part;
pub use objects::set_table::{copy_of_set, SetTable};
pub use objects::slots::{slot_value, slots_of};
pub use objects::type_::{
    builtin_type_name, class_attr, class_dict, forget_subclass, full_type_name, getattr_hook, has_buffer,
    has_finalizer, has_items_by_number, has_thread_local_attributes, is_data_descriptor, is_descriptor, is_heap_type,
    is_made_by_c, is_subtype, qualified_name, special_method, type_lookup, type_name, uses_generic_getattr,
    uses_generic_setattr, GetattrHook,
};
pub use objects::upcoming::{iterated, iterator_types, upcoming, Upcoming};
pub use objects::weak::{has_weakrefs, referents, supports_weakref, OnDeath, WeakRef};
pub use snapshot::{blind_spot, Changed, EmbeddedPlace, Objects, Place, Reading, Recorder, Snapshot};
