//! Runs the breaking instruction of an inlined function in a frame with that function's name, globals and lines. This
//! frame is called by similar frames for its callers. So an exception, and any function that is called, sees the
//! program's own stack.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyCode;

use super::break_graph::catching;
use crate::bytecode::flags::STARRED;
use crate::bytecode::{stack_effect, Instruction, Op};
use crate::cache::cache_of;
use crate::emit::{null_first, Emitter};
use crate::error::{Flow, ReasonId, Unwind};
use crate::machine::executor::{BreakPoint, Checkpoint, Trace};
use crate::machine::opcode::{self, Native};
use crate::machine::variable::VarId;
use crate::resume;

/// Writes the code of the frames below the outermost one. The first arguments of each frame are the functions of the
/// frames below it, the last ones its own variables.
pub(super) struct NativeFrames<'a, 'py> {
    py: Python<'py>,
    null: VarId,
    at: &'a BreakPoint,
    shown: Vec<FrameVariables>,
}

/// Variables of a frame below the outermost one. The frame that stands for it has them as well, because a traceback
/// may keep that frame.
#[derive(Default)]
pub(super) struct FrameVariables {
    names: Vec<String>,
    /// Values of the variables that are in no cell.
    pub(super) values: Vec<VarId>,
    /// Names of the cells.
    pub(super) cells: Vec<String>,
}

/// The variables of each frame that an exception may leave; empty for the other frames.
pub(super) fn shown(trace: &Trace<'_>, at: &BreakPoint) -> Vec<FrameVariables> {
    let of_frame = |frame: &Checkpoint| {
        let code = &frame.unit.code;
        let locals = code.varnames.iter().zip(&frame.locals).filter(|(name, _)| !code.cellvars.contains(name));
        let bound = locals.filter_map(|(name, value)| Some((name.clone(), (*value)?)));
        let (names, values) = bound.filter(|(_, value)| *value != trace.null()).unzip();
        FrameVariables { names, values, cells: code.cellvars.iter().chain(&code.freevars).cloned().collect() }
    };
    let catching = catching(at).unwrap_or(0);
    let levels = at.frames.iter().enumerate().skip(1);
    levels.map(|(level, frame)| if level >= catching { of_frame(frame) } else { FrameVariables::default() }).collect()
}

impl<'a, 'py> NativeFrames<'a, 'py> {
    pub(super) fn new(trace: &Trace<'py>, at: &'a BreakPoint) -> Self {
        let shown = shown(trace, at);
        NativeFrames { py: trace.py, null: trace.null(), at, shown }
    }

    /// Codes of frames that run the instruction and return the items it leaves: a single item as it is, several as a
    /// tuple.
    pub(super) fn run(&self, operands: &[VarId], left: usize) -> Flow<Vec<Py<PyAny>>> {
        let frame = self.at.innermost();
        let instruction = frame.unit.code.instructions[frame.at.index()];
        self.write(operands, |e| {
            self.load_operands(e, operands)?;
            match &frame.keyword_names {
                Some(names) if opcode::describe(instruction.opcode).native == Native::Call => {
                    e.keyword_names(self.py, names)?;
                }
                _ => {}
            }
            e.native(self.py, &frame.unit, &instruction)?;
            match left {
                0 => e.load_const(self.py.None()),
                1 => Ok(()),
                several => e.op(Op::BUILD_TUPLE, several as u32),
            }
        })
    }

    /// Codes of frames that return whether the branch jumps.
    pub(super) fn ask(&self, operands: &[VarId], branch: &Instruction) -> Flow<Vec<Py<PyAny>>> {
        let left = |jump| {
            stack_effect(self.py, branch.opcode, branch.arg, jump)
                .map(|effect| operands.len() as i32 + effect)
                .map_err(|error| Unwind::fallback(ReasonId::CannotRestore, error.to_string()))
        };
        let (stays, jumps) = (left(false)?, left(true)?);
        let constant = |value: bool| pyo3::types::PyBool::new(self.py, value).to_owned().into_any().unbind();
        self.write(operands, |e| {
            self.load_operands(e, operands)?;
            if opcode::describe(branch.opcode).needs_bool() {
                e.before_branch()?;
            }
            let branch = e.native_jump(branch)?;
            for _ in 0..stays {
                e.op(Op::POP_TOP, 0)?;
            }
            e.load_const(constant(false))?;
            e.op(Op::RETURN_VALUE, 0)?;
            e.land(branch);
            for _ in 0..jumps {
                e.op(Op::POP_TOP, 0)?;
            }
            e.load_const(constant(true))
        })
    }

    /// Codes of frames that raise the exception they are given, or raise it again.
    pub(super) fn raise(&self, operands: &[VarId], raising: bool) -> Flow<Vec<Py<PyAny>>> {
        self.write(operands, |e| {
            if !raising {
                e.before_reraise()?;
            }
            self.load_operands(e, operands)?;
            if raising {
                e.op(Op::RAISE_VARARGS, operands.len() as u32)?;
            } else {
                e.reraise()?;
            }
            let none = e.none();
            e.op(Op::LOAD_CONST, none)
        })
    }

    /// Returns codes of frames that are given this number of values, and call the first with the rest as arguments.
    pub(super) fn call(&self, values: u32) -> Flow<Vec<Py<PyAny>>> {
        self.write_given(values as usize, |e| {
            e.begin_call()?;
            move_out(e, 0)?;
            e.callable_loaded()?;
            (1..values).try_for_each(|slot| move_out(e, slot))?;
            e.call(values - 1)
        })
    }

    /// Codes of frames that enter a context manager, and return its `__exit__` and the result of `__enter__` (3.8 to
    /// 3.10).
    pub(super) fn enter(&self) -> Flow<Vec<Py<PyAny>>> {
        self.write_given(1, |e| {
            move_out(e, 0)?;
            e.enter_with()?;
            e.op(Op::BUILD_TUPLE, 2)
        })
    }

    /// Codes of frames that advance the iterator they are given.
    pub(super) fn advance(&self) -> Flow<Vec<Py<PyAny>>> {
        let advance = resume::advance(self.py)?;
        let operands = &self.at.innermost().stack;
        self.write(&operands[operands.len() - 1..], |e| {
            e.begin_call()?;
            e.load_const(advance)?;
            e.callable_loaded()?;
            move_out(e, 0)?;
            e.call(1)
        })
    }

    /// For an instruction that leaves a pair of a callable and a NULL: whether the NULL is first (below). `None` for
    /// other instructions.
    pub(super) fn leaves_pair(&self, instruction: &Instruction) -> Option<bool> {
        opcode::describe(instruction.opcode).is_pair(instruction.arg).then(null_first)
    }

    fn load_operands(&self, e: &mut Emitter, operands: &[VarId]) -> Flow<()> {
        let mut slot = 0;
        for &operand in operands {
            if operand == self.null {
                e.push_null()?;
            } else {
                move_out(e, slot)?;
                slot += 1;
            }
        }
        Ok(())
    }

    /// Writes the codes of all frames; `innermost` writes the body of the innermost one.
    fn write(&self, operands: &[VarId], innermost: impl FnOnce(&mut Emitter) -> Flow<()>) -> Flow<Vec<Py<PyAny>>> {
        self.write_given(operands.iter().filter(|operand| **operand != self.null).count(), innermost)
    }

    /// Like `write`, with the number of operands that are no NULL.
    fn write_given(&self, operands: usize, innermost: impl FnOnce(&mut Emitter) -> Flow<()>) -> Flow<Vec<Py<PyAny>>> {
        let frames = &self.at.frames[1..];
        let mut codes = Vec::new();
        let mut innermost = Some(innermost);
        for (index, frame) in frames.iter().enumerate() {
            let functions = frames.len() - index - 1;
            let given = functions
                + operands
                + self.shown[index..].iter().map(|variables| variables.values.len()).sum::<usize>();
            let variables = &self.shown[index];
            let handed_on = given - variables.values.len();
            codes.push(match innermost.take_if(|_| functions == 0) {
                Some(write) => self.frame(frame, handed_on, variables, write)?,
                None => self.frame(frame, handed_on, variables, |e| {
                    e.begin_call()?;
                    move_out(e, 0)?;
                    e.callable_loaded()?;
                    (1..handed_on).try_for_each(|slot| move_out(e, slot as u32))?;
                    e.call(handed_on as u32 - 1)
                })?,
            });
        }
        Ok(codes)
    }

    /// Writes code with the names and lines of a frame. Its arguments are `moved` values, which it moves to the
    /// stack, and the variables of the frame. It returns the value that `write` leaves.
    fn frame(
        &self,
        frame: &Checkpoint,
        moved: usize,
        variables: &FrameVariables,
        write: impl FnOnce(&mut Emitter) -> Flow<()>,
    ) -> Flow<Py<PyAny>> {
        let unit = Rc::clone(&frame.unit);
        let mut code = unit.code.without_instructions(self.py);
        code.varnames = (0..moved).map(|index| format!("___{index}")).chain(variables.names.iter().cloned()).collect();
        let arguments = code.varnames.len();
        (code.cellvars, code.freevars) = (Vec::new(), variables.cells.clone());
        (code.arg_count, code.posonly_count, code.kwonly_count) = (arguments as u32, 0, 0);
        code.flags &= !STARRED;
        let position = unit.code.instructions[frame.at.index()].position;
        let mut emitter = Emitter::new(self.py, &code, position);
        emitter.prologue(&code, false)?;
        emitter.begin()?;
        write(&mut emitter)?;
        emitter.op(Op::RETURN_VALUE, 0)?;
        emitter.finish(&mut code);
        let code = unit.encode(self.py, &code).map_err(|error| super::internal(&error))?;
        if let Some(cache) = cache_of(code.cast::<PyCode>().map_err(PyErr::from)?) {
            cache.directives.set_skip(true);
        }
        Ok(code.unbind())
    }
}

/// Moves an argument to the stack. A traceback may keep the frame, which should then hold only its own variables.
fn move_out(e: &mut Emitter, slot: u32) -> Flow<()> {
    e.op(Op::LOAD_FAST, slot)?;
    e.op(Op::DELETE_FAST, slot)
}
