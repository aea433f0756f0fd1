//! The point where a frame continues behind a break: the key of its resume function, and the finish of the
//! instruction whose call broke.

mod finish;
mod key;

pub(crate) use finish::refuse_result;
pub use finish::{Answer, AnswerUse, Asked, Finish, Operation};
pub(crate) use key::raised;
pub use key::{Entry, ResumeKey, Slot};
