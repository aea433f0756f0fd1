//! How a simulated instruction can fail to complete, and why: the user's program raised, a limit of ours was met, or we have
//! a bug. A limit names a stable reason, a text and the user's source line.

use std::fmt;

use pyo3::PyErr;

use crate::variable::VarId;

pyo3::create_exception!(
    sot,
    GraphBreakError,
    pyo3::exceptions::PyRuntimeError,
    "The function was to become one graph, and cannot."
);

/// The result of simulating something.
pub type Flow<T> = Result<T, Unwind>;

/// Why simulation left the straight path.
#[derive(Debug)]
pub enum Unwind {
    /// The user's program raises this exception (a variable of the trace).
    Raise(VarId),
    /// The graph must end here; what follows needs real values. The instruction runs natively.
    BreakGraph(Box<Reason>),
    /// The frame is left to CPython; functions it calls are still translated.
    Fallback(Box<Reason>),
    /// Tracing changed an object the trace has looked at; simulated anew it will find it as it now is.
    Restart(Option<Box<PlannedBreak>>),
    /// Python raised where the tracer expected no error: a bug of ours, never the user's.
    Internal(Box<PyErr>),
}

/// A break that is known before the trace reaches it.
#[derive(Debug, Clone)]
pub struct PlannedBreak {
    /// How many instructions of the outermost frame come before it.
    pub step: u64,
    /// Why.
    pub reason: Reason,
}

impl From<PyErr> for Unwind {
    fn from(error: PyErr) -> Self {
        Unwind::Internal(Box::new(error))
    }
}

impl Unwind {
    /// A graph break of the given kind.
    pub fn break_graph(id: ReasonId, text: impl Into<String>) -> Self {
        Unwind::BreakGraph(Box::new(Reason::new(id, text)))
    }

    /// A fallback of the given kind.
    pub fn fallback(id: ReasonId, text: impl Into<String>) -> Self {
        Unwind::Fallback(Box::new(Reason::new(id, text)))
    }
}

macro_rules! reasons {
    ($($(#[doc = $meaning:literal])+ $variant:ident = $id:literal, $kind:ident, $hint:literal;)+) => {
        /// What stopped a graph. Ids are stable: tools and documents may refer to them.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        pub enum ReasonId { $($(#[doc = $meaning])+ $variant,)+ }

        impl ReasonId {
            /// Every reason, in the order of their declaration.
            pub const ALL: &'static [ReasonId] = &[$(ReasonId::$variant,)+];

            /// The stable id.
            #[must_use]
            pub const fn id(self) -> &'static str {
                match self { $(ReasonId::$variant => $id,)+ }
            }

            /// Which of the four kinds of break it is, or none of them.
            #[must_use]
            pub const fn kind(self) -> ReasonKind {
                match self { $(ReasonId::$variant => ReasonKind::$kind,)+ }
            }

            /// What it means: the text that documents the variant.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(ReasonId::$variant => concat!($($meaning),+).trim_ascii(),)+ }
            }

            /// What a user can do about it.
            #[must_use]
            pub const fn hint(self) -> &'static str {
                match self { $(ReasonId::$variant => $hint,)+ }
            }
        }
    };
}

/// The four kinds of graph break, and what is none of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReasonKind {
    /// Data-dependent control flow: a branch on a tensor's value.
    Ddcf,
    /// A call or operation that cannot be simulated.
    Unsps,
    /// Something on a list of the user's or the framework's.
    Cdbl,
    /// An opcode without a handler.
    Unimp,
    /// The frame as a whole is not translated.
    Frame,
}

reasons! {
    /// A branch, loop or boolean conversion depends on a tensor's value.
    TensorTruth = "data-dependent-control-flow", Ddcf,
        "Use paddle.where or a mask, or keep the branch: the code on both sides is compiled.";
    /// A value is read out of a tensor.
    TensorValue = "tensor-value", Unsps,
        "Keep the value in a tensor, or move the read out of the hot function.";
    /// A call of something that cannot be followed: a C function, another library, I/O.
    UnsupportedCall = "unsupported-call", Unsps,
        "Move the call before or after the tensor work, or register a handler for it.";
    /// An operator on values it is not simulated for.
    UnsupportedOperation = "unsupported-operation", Unsps,
        "Rewrite with operations of the framework, or register a handler.";
    /// An attribute that cannot be read without running unknown code.
    UnsupportedAttribute = "unsupported-attribute", Unsps,
        "Read the attribute outside the hot function and pass it in.";
    /// A write that cannot be replayed after the graph.
    UnsupportedMutation = "unsupported-mutation", Unsps,
        "Return the new value instead of writing it in place.";
    /// The framework refused the operation while the graph was built.
    BackendRefused = "backend-refused", Unsps,
        "See the framework's message; the operation runs eagerly.";
    /// The API was put on the break list.
    BreakListed = "break-listed", Cdbl,
        "Take the API off the list if it should be compiled.";
    /// No handler is registered for the opcode.
    UnimplementedOpcode = "unimplemented-opcode", Unimp,
        "Rewrite the statement, or register a handler for the opcode.";
    /// Generator, coroutine or class-body frames and the like.
    UnsupportedFrame = "unsupported-frame", Frame,
        "Nothing: the frame runs in CPython, functions it calls are translated.";
    /// The program raises an exception on this path.
    Raises = "raises", Frame,
        "Nothing: CPython raises the exception with its own traceback.";
    /// A value cannot be rebuilt by the new code.
    CannotRestore = "cannot-restore", Frame,
        "Return tensors and plain containers.";
    /// The trace grew beyond its limit.
    TraceTooLong = "trace-too-long", Frame,
        "Translate the loop body as a function of its own.";
    /// Too many different translations of one function.
    TooManyEntries = "too-many-translations", Frame,
        "Pass what changes at every call as a tensor.";
    /// The frame holds no tensor work.
    NothingToCompile = "nothing-to-compile", Frame,
        "Nothing: there is no tensor work in this frame.";
    /// A bug of this library, caught at its boundary.
    InternalError = "internal-error", Frame,
        "Please report it, with the text and a small example.";
}

/// Why a graph ended, with where.
#[derive(Clone, Debug)]
pub struct Reason {
    /// The stable id.
    pub id: ReasonId,
    /// What was met, in the user's terms.
    pub text: String,
    /// The user's source, innermost frame first; filled in by the executor.
    pub stack: Vec<Location>,
}

impl Reason {
    /// A reason not yet placed.
    pub fn new(id: ReasonId, text: impl Into<String>) -> Self {
        Reason { id, text: text.into(), stack: Vec::new() }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.id.id(), self.text)?;
        if let Some(location) = self.stack.first() {
            write!(f, " at {location}")?;
        }
        Ok(())
    }
}

impl Reason {
    /// The error for a function that must be one graph.
    pub fn error(&self) -> PyErr {
        let places: Vec<String> = self.stack.iter().map(|place| format!("\n  {place}")).collect();
        let hint = self.id.hint();
        GraphBreakError::new_err(format!("{}: {}{}\n{hint}", self.id.id(), self.text, places.concat()))
    }
}

/// A place in the user's source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// File name as in the code object.
    pub file: String,
    /// Qualified name of the function.
    pub function: String,
    /// Line, 0 if unknown.
    pub line: u32,
    /// First and last column of the expression (0-based, UTF-8 bytes), where the interpreter records them (3.11+).
    pub columns: Option<(u32, u32)>,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} in {}", self.file, self.line, self.function)
    }
}

/// A registration that does not fit: found when the registries are frozen, reported with the file and line it stands in.
#[derive(Debug, thiserror::Error)]
#[error("{file}:{line}: {what}")]
pub struct RegistrationError {
    /// What is wrong with it.
    pub what: String,
    /// Source file of the registration.
    pub file: &'static str,
    /// Line of the registration.
    pub line: u32,
}
