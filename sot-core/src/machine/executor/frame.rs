//! A simulated frame: code, value stack, locals, cells and blocks.

use std::rc::Rc;

use super::{Claim, TracedFrame};
use crate::bytecode::{CodeUnit, Label, Op, Opcodes};
use crate::error::Location;
use crate::machine::variable::VarId;
use crate::tracker::Globals;

/// An entry of the block stack (3.8 to 3.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Where exceptions raised in the block go.
    pub handler: Label,
    /// Stack depth to unwind to.
    pub depth: usize,
    /// True for the block of a running handler.
    pub in_handler: bool,
}

impl Block {
    /// Stack depth of the first item pushed in the block. A running handler keeps the three items of the exception
    /// that was handled before below it.
    pub fn base(&self) -> usize {
        if self.in_handler {
            self.depth + 3
        } else {
            self.depth
        }
    }
}

/// An exception that is being handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handled {
    /// Stack depth at which the previously handled exception lies: one item, or three before 3.11.
    pub depth: usize,
    /// The exception.
    pub exception: VarId,
    /// The traceback that the exception had when its handler began. Before 3.11 `sys.exc_info()` keeps it.
    pub traceback: Option<VarId>,
}

/// A frame being simulated.
pub struct Frame {
    /// The code that the frame runs.
    pub code: Rc<CodeUnit>,
    /// The function that was called, if it is known.
    pub function: Option<VarId>,
    /// The instruction being simulated.
    pub at: Label,
    /// The next instruction.
    pub pc: Label,
    /// The value stack.
    pub stack: Vec<VarId>,
    /// Local variables by slot; `None` if unbound.
    pub locals: Vec<Option<VarId>>,
    /// Cell variables, then free variables.
    pub cells: Vec<VarId>,
    /// The globals.
    pub globals: Globals,
    /// The block stack (3.8 to 3.10).
    pub blocks: Vec<Block>,
    /// The exceptions being handled in this frame, the outermost first.
    pub handled: Vec<Handled>,
    /// Keyword names for the next call (3.11 and 3.12).
    pub keyword_names: Option<Vec<Rc<str>>>,
    /// The dict that `locals()` has returned.
    pub variables: Option<VarId>,
    /// The namespace of a class body or of a text that is evaluated.
    pub namespace: Option<VarId>,
    /// The dict, made in the trace, that a text is evaluated in instead of the globals.
    pub global_names: Option<VarId>,
    /// The frame as tracebacks refer to it, once one does.
    pub place: Option<Rc<TracedFrame>>,
    /// What the caller's instruction does with the frame's result, if it does nothing else besides the call.
    pub claim: Option<Rc<Claim>>,
    /// True if the frame's caller is a Python function that has no frame in the trace.
    pub is_called_from_outside: bool,
}

impl Frame {
    /// Makes a frame at its first instruction, with unbound locals and no cells.
    pub fn new(code: Rc<CodeUnit>, globals: Globals) -> Frame {
        // An inlined comprehension may keep a variable of its own in the slot of a cell (3.12).
        let slots = code.code.varnames.len() + code.code.cellvars.len() + code.code.freevars.len();
        let locals = vec![None; slots];
        Frame {
            code,
            function: None,
            at: Label(0),
            pc: Label(0),
            stack: Vec::new(),
            locals,
            cells: Vec::new(),
            globals,
            blocks: Vec::new(),
            handled: Vec::new(),
            keyword_names: None,
            variables: None,
            namespace: None,
            global_names: None,
            place: None,
            claim: None,
            is_called_from_outside: false,
        }
    }

    /// True if an exception raised here would meet a handler of the program: the frame is inside a `try` or `with`.
    pub fn is_protected(&self, opcodes: &Opcodes) -> bool {
        let code = &self.code.code;
        let mut handler = code.handler_at(self.at);
        while let Some(found) = handler {
            // Handlers that the compiler adds, as for generators and `yield from`, raise the exception again.
            let first = code.instructions.get(found.target.0 as usize);
            if first.is_some_and(|first| opcodes.is(first.opcode, Op::PUSH_EXC_INFO)) {
                return true;
            }
            handler = code.handler_at(found.target);
        }
        // Before 3.11. An exception leaves the block of a running handler.
        self.blocks.iter().any(|block| !block.in_handler)
    }

    /// The position in the program's source.
    pub fn location(&self) -> Location {
        let code = &self.code.code;
        let position = code.instructions.get(self.at.0 as usize).map(|i| i.position);
        let line = position.and_then(|p| p.line).unwrap_or(code.first_line);
        Location {
            columns: position.and_then(|p| Some((p.column?, p.end_column?))),
            end_line: position.and_then(|p| p.end_line).unwrap_or(line),
            ..Location::line(code.filename.clone(), code.qualname.clone(), line)
        }
    }
}
