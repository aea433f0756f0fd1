//! Where and how a frame goes on behind a break: what identifies a resume function, and what is left of an instruction behind
//! its call.

mod finish;
mod key;

pub(crate) use finish::refuse_result;
pub use finish::{Answer, AnswerUse, Asked, Finish, Operation};
pub(crate) use key::raised;
pub use key::{Entry, ResumeKey, Slot};
