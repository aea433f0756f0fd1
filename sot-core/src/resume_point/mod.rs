//! The point where a frame continues behind a break: the key of its resume function, and the finish of the
//! instruction whose call broke.

mod call;
mod finish;
mod key;

pub(crate) use call::{callee_caller, is_callee_caller};
pub(crate) use finish::refuse_result;
pub use finish::{AskedMethod, Finish, Operation, SpecialResult, SpecialResultUse};
pub(crate) use key::raised;
pub use key::{Entry, ResumeKey, Slot};
