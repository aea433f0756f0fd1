//! How a simulated instruction can fail to complete, and why: the user's program raised, a limit of the tracer was
//! met, or the tracer has a bug. A limit is reported as a [`Reason`] with a stable id, a text and the user's source
//! line.

mod plugin_reason;

use std::fmt;

use once_cell::sync::OnceCell;
use pyo3::prelude::*;

use crate::bytecode::CodeUnit;
use crate::cpython;
use crate::entity::VarId;
use crate::origin::RegistrationOrigin;

pub(crate) use plugin_reason::check as check_reasons;
pub use plugin_reason::{LinkedReason, PluginReason};

pyo3::create_exception!(
    sot,
    GraphBreakError,
    pyo3::exceptions::PyRuntimeError,
    "A function translated with `fullgraph=True` cannot become one graph; says where, why and what to do."
);

pyo3::create_exception!(
    sot,
    RecompileError,
    pyo3::exceptions::PyRuntimeError,
    "No translation fits a call, and the stance `fail_on_recompile` forbids another one; says which guards failed."
);

/// Returns the hint of a reason in the framework's words, if the framework has one.
type Hints = Box<dyn Fn(ReasonId) -> Option<&'static str> + Send + Sync>;

static HINTS: OnceCell<Hints> = OnceCell::new();

/// Registers the framework's own hints, which take precedence over the built-in ones. Only the first call has an
/// effect.
pub fn set_hints(hints: Hints) {
    HINTS.set(hints).ok();
}

/// Result of simulating an operation.
pub type Flow<T> = Result<T, Unwind>;

/// Why the simulation of an instruction did not complete.
#[derive(Debug)]
pub enum Unwind {
    /// The user's program raises this exception, given as a variable of the trace.
    Raise(VarId),
    /// The graph has to end here, because the instruction needs real values. The instruction runs natively.
    BreakGraph(Box<Reason>),
    /// The frame is left to CPython. Functions that it calls are still translated.
    Fallback(Box<Reason>),
    /// The attempt is abandoned, and the frame is simulated again with the facts that this attempt has shown. With a
    /// planned break, the new attempt breaks there.
    Restart(Option<Box<PlannedBreak>>),
    /// Python raised where the tracer expected no error. This is a bug of the tracer, never the user's.
    Internal(Box<PyErr>),
}

/// A break whose place is known before the trace reaches it.
#[derive(Debug, Clone)]
pub struct PlannedBreak {
    /// Number of checkpoints that the attempt has taken when it reaches the place. Checkpoints are counted over all
    /// frames.
    pub step: u64,
    /// The reason of the break.
    pub reason: Reason,
    /// True if the instruction reads the variables of its frame, so that the frame has to be left to CPython.
    pub reads_frame: bool,
}

impl From<PyErr> for Unwind {
    fn from(error: PyErr) -> Self {
        Unwind::Internal(Box::new(error))
    }
}

impl Unwind {
    /// Creates a graph break with the given reason.
    pub fn break_graph(id: ReasonId, text: impl Into<String>) -> Self {
        Unwind::BreakGraph(Box::new(Reason::new(id, text)))
    }

    /// Creates a fallback with the given reason.
    pub fn fallback(id: ReasonId, text: impl Into<String>) -> Self {
        debug_assert_ne!(id, ReasonId::InternalError, "a bug is no limit: use `Unwind::bug`");
        Unwind::Fallback(Box::new(Reason::new(id, text)))
    }

    /// Creates the error for a bug of the tracer, or for bytecode that no compiler makes.
    pub fn bug(text: impl Into<String>) -> Self {
        pyo3::exceptions::PyRuntimeError::new_err(text.into()).into()
    }
}

macro_rules! reasons {
    ($($(#[doc = $meaning:literal])+ $variant:ident = $id:literal, $kind:ident, $hint:literal;)+) => {
        /// Why a graph or a frame could not be translated. Ids are stable: tools and documents may refer to them.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        pub enum ReasonId {
            $($(#[doc = $meaning])+ $variant,)+
            /// A reason of a plug-in, made by [`reason!`](crate::reason!).
            Plugin(&'static PluginReason),
        }

        impl ReasonId {
            /// The tracer's own reasons, in the order of declaration.
            pub const ALL: &'static [ReasonId] = &[$(ReasonId::$variant,)+];

            /// The stable id.
            #[must_use]
            pub const fn id(self) -> &'static str {
                match self {
                    $(ReasonId::$variant => $id,)+
                    ReasonId::Plugin(reason) => reason.id,
                }
            }

            /// The kind of break, or `Frame` for reasons that leave the whole frame to CPython.
            #[must_use]
            pub const fn kind(self) -> ReasonKind {
                match self {
                    $(ReasonId::$variant => ReasonKind::$kind,)+
                    ReasonId::Plugin(reason) => reason.kind,
                }
            }

            /// The meaning: the text that documents the variant.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(ReasonId::$variant => concat!($($meaning),+).trim_ascii(),)+
                    ReasonId::Plugin(reason) => reason.meaning,
                }
            }

            /// What a user can do about it.
            #[must_use]
            pub const fn hint(self) -> &'static str {
                match self {
                    $(ReasonId::$variant => $hint,)+
                    ReasonId::Plugin(reason) => reason.hint,
                }
            }
        }
    };
}

impl ReasonId {
    /// True if the reason concerns this call only, and says nothing about the next call of the code.
    #[must_use]
    pub const fn is_of_this_call(self) -> bool {
        matches!(self, ReasonId::StackNearlyUsedUp | ReasonId::SignalWaits | ReasonId::CacheNotFilled)
    }

    /// Address of a page about the reason, if a plug-in names one.
    #[must_use]
    pub const fn page(self) -> Option<&'static str> {
        match self {
            ReasonId::Plugin(reason) => reason.page,
            _ => None,
        }
    }
}

/// The four kinds of graph break, and a fifth value for reasons that leave the whole frame to CPython.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum ReasonKind {
    /// Data-dependent control flow: a branch on a tensor's value.
    Ddcf,
    /// A call or an operation that cannot be simulated.
    Unsps,
    /// An API on a list of the user's or the framework's, or a break that the program itself asks for.
    Cdbl,
    /// An opcode without a handler.
    Unimp,
    /// CPython runs the frame as a whole.
    Frame,
}

impl ReasonKind {
    /// The abbreviation that users know.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ReasonKind::Ddcf => "DDCF",
            ReasonKind::Unsps => "UNSPS",
            ReasonKind::Cdbl => "CDBL",
            ReasonKind::Unimp => "UNIMP",
            ReasonKind::Frame => "FRAME",
        }
    }
}

reasons! {
    /// A branch, loop or boolean conversion depends on a tensor's value.
    TensorTruth = "data-dependent-control-flow", Ddcf,
        "Select values by a mask, or keep the branch: the code on both sides is compiled.";
    /// A value is read out of a tensor.
    TensorValue = "tensor-value", Unsps,
        "Keep the value in a tensor, or move the read out of the hot function.";
    /// A call of something that cannot be followed: a C function, another library, I/O.
    UnsupportedCall = "unsupported-call", Unsps,
        "Move the call before or after the tensor work, or register a handler for it.";
    /// An operator that is not simulated for values of these types.
    UnsupportedOperation = "unsupported-operation", Unsps,
        "Rewrite with operations of the framework, or register a handler.";
    /// An attribute that cannot be read without running unknown code.
    UnsupportedAttribute = "unsupported-attribute", Unsps,
        "Read the attribute outside the hot function and pass it in.";
    /// A write that cannot be replayed after the graph.
    UnsupportedMutation = "unsupported-mutation", Unsps,
        "Return the new value instead of writing it in place.";
    /// A Python number, a text or the contents of a container differ from call to call, and the trace needs their
    /// value.
    ChangingNumber = "changing-number", Unsps,
        "Pass the number as a tensor: one graph then serves all its values.";
    /// A function makes a new class at each call, and the code behind a break depends on the class.
    ChangingClass = "changing-class", Unsps,
        "Make the class once, outside the function.";
    /// An exception leaves the function or is stored: CPython has to raise it, since new code cannot make its
    /// traceback.
    Raises = "raises", Unsps,
        "Nothing: CPython raises the exception at its own line, and the code around it is compiled.";
    /// The framework refused the operation while the graph was built.
    BackendRefused = "backend-refused", Unsps,
        "See the framework's message. Where a graph break is no error, the operation runs eagerly.";
    /// The API was put on the break list, or `sot.disable` or `sot.register.skip` leaves it to CPython.
    BreakListed = "break-listed", Cdbl,
        "To compile the call, remove the API from the list, or withdraw the registration.";
    /// The program itself asks for the break or fallback: `psdb.breakgraph()`, `psdb.fallback()` or
    /// `psdb.breakpoint()`.
    Requested = "requested", Cdbl,
        "Remove the call when it has served its purpose.";
    /// No handler is registered for the opcode.
    UnimplementedOpcode = "unimplemented-opcode", Unimp,
        "Rewrite the statement, or register a handler for the opcode.";
    /// A frame of a kind that is not simulated, such as that of a coroutine, or a function that counts or shows frames
    /// which the trace does not have.
    UnsupportedFrame = "unsupported-frame", Frame,
        "Nothing: the frame runs in CPython, functions it calls are translated.";
    /// A value cannot be rebuilt by the new code.
    CannotRestore = "cannot-restore", Frame,
        "Return tensors and plain containers.";
    /// The trace grew beyond its limit.
    TraceTooLong = "trace-too-long", Frame,
        "Translate the loop body as a function of its own.";
    /// Calls are nested so deeply that the C stack has no room for a simulation.
    StackNearlyUsedUp = "stack-nearly-used-up", Frame,
        "Nothing: the frame runs in CPython. A thread with a larger stack (threading.stack_size()) can compile it.";
    /// A signal handler or an exception from another thread is waiting, and the simulation would take too long.
    SignalWaits = "signal-waits", Frame,
        "Nothing: the handler runs, and the next call is translated.";
    /// A function with a cache (`functools.lru_cache`) has not been called with these arguments yet, or a module is not
    /// loaded yet. A trace does neither, because the operations before have not run.
    CacheNotFilled = "cache-not-filled", Frame,
        "Nothing: this call fills the cache, and the next one is translated.";
    /// Code that the program has registered (`flatten`, `__eq__` of a value type) raised while a guard asked it.
    RegistrationRaised = "registration-raised", Frame,
        "Fix the registered function or class: the reason names its exception and the registration.";
    /// What a function that the program has registered (`flatten`) gives is not equal to itself, so that no guard on it
    /// would hold.
    RegistrationDiffers = "registration-differs", Frame,
        "Let the function give data that equals itself: the reason names the registration.";
    /// A debugger or coverage tool traces the lines that run (`sys.settrace`), or a debugger is registered with
    /// `sys.monitoring`.
    Traced = "traced", Frame,
        "Nothing: while the tool is there, the frame and what it calls run in CPython.";
    /// Too many translations of one function, or of a loop behind a break; CPython runs the frame, or the rest of the
    /// iteration.
    TooManyEntries = "too-many-translations", Frame,
        "Pass the value that differs from call to call as a tensor.";
    /// The frame holds no tensor work, or does nothing but read the value of a tensor.
    NothingToCompile = "nothing-to-compile", Frame,
        "Nothing: there is no tensor work in this frame.";
    /// A bug of this library, caught at its boundary.
    InternalError = "internal-error", Frame,
        "Please report it, with the text and a small example.";
}

/// An event that the user has forbidden in a function by a mark. If the event occurs, an error is raised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forbidden {
    /// A graph break.
    Break = 1,
    /// A fallback to CPython.
    Fallback = 2,
}

/// Why a graph ended, and where.
#[derive(Clone, Debug)]
pub struct Reason {
    /// The stable id.
    pub id: ReasonId,
    /// What the tracer met, in the user's terms.
    pub text: String,
    /// The user's source, innermost frame first; filled in by the executor.
    pub stack: Vec<Location>,
    /// Name of the innermost running function that is marked as not to be broken or not to be left to CPython.
    pub forbidden_by: Option<String>,
    /// What CPython runs because of it.
    pub extent: Extent,
}

/// What CPython runs because of a graph break or a fallback.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Extent {
    /// An instruction; at a fallback, the frame.
    #[default]
    Instruction,
    /// An instruction whose effect shows the frames of its callers: it raises an exception that has a traceback, or
    /// counts frames. Where an inlined function has a caller that only CPython has a frame of, the graph breaks at the
    /// call in front of that frame.
    InstructionInItsStack,
    /// Nothing: the graph ends between two instructions.
    Nothing,
    /// A frame. If the reason comes up in an inlined function, the graph breaks at the call of that function, whose
    /// frame then meets the reason by itself.
    Frame,
    /// A frame, and the functions that it calls.
    FrameAndCallees,
}

impl Reason {
    /// Creates a reason without a place in the source.
    pub fn new(id: ReasonId, text: impl Into<String>) -> Self {
        Reason { id, text: text.into(), stack: Vec::new(), forbidden_by: None, extent: Extent::default() }
    }

    /// Returns the advice for the user: the framework's own if there is one, else the built-in hint.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        HINTS.get().and_then(|hints| hints(self.id)).unwrap_or_else(|| self.id.hint())
    }

    /// Formats the reason as `explain` and `GraphBreakError` show it: kind, id and text, the user's stack with source
    /// lines, and advice.
    pub fn report(&self, py: Python<'_>) -> String {
        let mut report = format!("[{} {}] {}", self.id.kind().name(), self.id.id(), self.text);
        for place in self.stack.iter().rev() {
            report.push_str("\n  ");
            report.push_str(&place.excerpt(py).join("\n  "));
        }
        report.push_str("\n  what to do: ");
        report.push_str(self.hint());
        if let Some(page) = self.id.page() {
            report.push_str("\n  more: ");
            report.push_str(page);
        }
        report
    }

    /// Returns the error for a function that must not be broken, or must not be left to CPython.
    pub fn error(&self, py: Python<'_>) -> PyErr {
        let function = self.forbidden_by.as_deref().unwrap_or("the function");
        GraphBreakError::new_err(format!("{function} cannot stay in one graph: {}", self.report(py)))
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
    /// Last line of the expression.
    pub end_line: u32,
}

impl Location {
    /// A whole line of a function.
    #[must_use]
    pub fn line(file: String, function: String, line: u32) -> Self {
        Location { file, function, line, columns: None, end_line: line }
    }

    /// Shows the place as a traceback does: the source line, with carets under the expression, or under the whole
    /// line where columns are not known.
    fn excerpt(&self, py: Python<'_>) -> Vec<String> {
        let mut lines = vec![format!("File \"{}\", line {}, in {}", self.file, self.line, self.function)];
        let source =
            cpython::import(py, "linecache").and_then(|cache| cache.call_method1("getline", (&self.file, self.line)));
        let source = source.and_then(|source| source.extract::<String>()).unwrap_or_default();
        let source = source.trim_end();
        let shown = source.trim_start();
        if !shown.is_empty() {
            let (before, marked) = self.marked(source);
            lines.push(format!("  {shown}"));
            lines.push(format!("  {}{}", " ".repeat(before), "^".repeat(marked)));
        }
        lines
    }

    /// Number of characters before the expression, without the line's indentation, and number of characters of the
    /// expression.
    fn marked(&self, source: &str) -> (usize, usize) {
        let indent = source.len() - source.trim_start().len();
        let (start, end) = self.columns.map_or((indent, source.len()), |(start, end)| (start as usize, end as usize));
        let end = if self.end_line == self.line { end } else { source.len() };
        let whole = (0, source[indent..].chars().count());
        match (source.get(indent..start), source.get(start..end.min(source.len()))) {
            (Some(before), Some(marked)) if !marked.is_empty() => (before.chars().count(), marked.chars().count()),
            _ => whole,
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} in {}", self.file, self.line, self.function)
    }
}

impl CodeUnit {
    /// Location of the function's first line.
    pub fn place(&self) -> Location {
        let code = &self.code;
        Location::line(code.filename.clone(), code.qualname.clone(), code.first_line)
    }
}

/// A registration that does not fit. It is found when the registries are frozen, and reported with crate, file and
/// line.
#[derive(Debug, thiserror::Error)]
#[error("{origin}: {what}")]
pub struct RegistrationError {
    /// What is wrong with the registration.
    pub what: String,
    /// Where the registration stands.
    pub origin: RegistrationOrigin,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(source: &str, columns: Option<(u32, u32)>) -> (usize, usize) {
        Location { columns, ..Location::line(String::new(), String::new(), 1) }.marked(source)
    }

    #[test]
    fn carets_count_characters_and_columns_bytes() {
        assert_eq!(marked("    if y.sum() > 0:", Some((7, 18))), (3, 11));
        assert_eq!(marked("    s = 'é'; y.item()", Some((14, 22))), (9, 8));
    }

    #[test]
    fn without_columns_the_whole_line_is_marked() {
        assert_eq!(marked("    return y", None), (0, 8));
        assert_eq!(marked("    return y", Some((40, 50))), (0, 8));
        assert_eq!(marked("    s = 'é'", Some((10, 11))), (0, 7));
    }

    #[test]
    fn an_expression_of_many_lines_is_marked_to_the_end_of_the_first() {
        let place = Location { columns: Some((4, 2)), end_line: 3, ..Location::line(String::new(), String::new(), 1) };
        assert_eq!(place.marked("y = f("), (4, 2));
    }
}
