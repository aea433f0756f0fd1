//! New code for a frame whose graph breaks: the graph so far; stack and locals as CPython would have them; the
//! breaking instruction, run natively; and a hand-over to the resume function behind it (for a branch, one on each
//! side). If the break is in an inlined function, all frames down to it are laid out. The hand-over then has their
//! resume functions, each as an argument of its caller's.

mod places;
mod run;
mod variables;

use rustc_hash::FxHashSet;

use super::hand_over::{instruction_at, Break, BreakSide};
use super::{CodeGen, NewCode};
use crate::bytecode::{Instruction, Label, Op};
use crate::error::{Flow, ReasonId, Unwind};
use crate::machine::executor::{Block, BreakPoint, Checkpoint};
use crate::machine::variable::VarId;
use crate::resume::{self, Entry, Finish, Item, Value};
use crate::trace::BreakTrace;
use crate::tracker::Tracker;

impl Break<'_, '_> {
    fn instruction(&self) -> Instruction {
        instruction_at(self.at.innermost())
    }

    fn is_nested(&self) -> bool {
        self.at.frames.len() > 1
    }

    /// True if a frame catches an exception of the breaking instruction, by a handler or as the end of a loop.
    fn is_caught(&self) -> bool {
        catching(self.at).is_some()
    }
}

/// Index of the frame that catches an exception of the breaking instruction. The frame of a loop whose next item is
/// being computed counts, because `StopIteration` ends the loop. `None` if no frame catches it.
pub(super) fn catching(at: &BreakPoint) -> Option<usize> {
    innermost_try(at).filter(|_| !at.is_between())
}

/// Index of the innermost frame that catches an exception raised where the graph breaks.
fn innermost_try(at: &BreakPoint) -> Option<usize> {
    let stops = |frame: &Checkpoint| frame.claim.as_ref().is_some_and(|claim| claim.finish == Finish::Next);
    at.frames.iter().rposition(|frame| catcher(frame).is_some() || stops(frame))
}

/// Depth of the stack to which an exception of the frame's instruction unwinds; `None` if the frame does not catch
/// it.
fn catcher(frame: &Checkpoint) -> Option<usize> {
    let blocks = &frame.blocks;
    let innermost = blocks.last().filter(|_| blocks.iter().any(|block| !block.in_handler));
    let block = innermost.map(Block::base);
    frame.unit.code.handler_at(frame.at).map(|handler| handler.depth as usize).or(block)
}

impl<'py> CodeGen<'_, 'py> {
    /// Writes code that runs the graph, then the breaking instruction, and continues in a resume function.
    pub fn compile_break(mut self, end: BreakTrace<'_, 'py>) -> Flow<NewCode> {
        let BreakTrace { finished, at, sources, live, dropped, details } = end;
        let of = &Break { at, sources, details: &details };
        self.emitter.set_position(instruction_at(at.root()).position);
        self.adopt_cells(at.root());
        let graphs = self.call_graph(finished.graph)?;
        let holds = innermost_try(at).is_some() || self.ranges.is_beginning();
        if holds {
            self.hold_signals()?;
        }
        self.end_beginning()?;
        self.store_classes()?;
        for &value in &live {
            self.keep_unless_stable(value)?;
        }
        for frame in &at.frames[1..] {
            self.keep_globals(frame.globals)?;
        }
        let dropped = self.keep_dropped(&dropped)?;
        self.restore_effects()?;
        self.store_cells()?;
        self.unset(dropped)?;
        self.forget_arguments(&live)?;
        if let Some(exception) = at.handled() {
            let block = self.emitter.before_handling()?;
            self.load_raised(Value::Known(exception))?;
            self.emitter.begin_handling(block)?;
        }
        if !at.is_between() {
            self.show_variables(of)?;
        }
        let going = self.dying_with_stack(of);
        let hold = if of.is_caught() { Some(resume::hold_signals(self.trace.py)?) } else { None };
        let guarded = self.emitter.begin_guarded(!at.is_between(), hold)?;
        if holds && !at.is_between() {
            self.release_signals()?;
        }
        self.break_here(of)?;
        if of.is_caught() {
            self.hand_over_exception(of, guarded)?;
        } else if !at.is_between() {
            self.drop_and_raise(of, guarded, going)?;
        }
        self.handle_graph_error()?;
        self.handle_driven()?;
        let resumes = std::mem::take(&mut self.resumes);
        Ok(NewCode { code: self.assemble()?.unbind(), graphs, resumes })
    }

    /// Writes the handler for exceptions of the breaking instruction: the resume function of the frame that catches
    /// the exception starts by raising it.
    fn hand_over_exception(&mut self, of: &Break<'_, '_>, guarded: Label) -> Flow<()> {
        let (last, mut level) = (of.at.frames.len() - 1, catching(of.at).unwrap_or(0));
        if of.sources[level].finish_at(of.at.frames[level].at) == Some(Finish::Next) {
            if level == last {
                return Err(cannot("what ends a loop is raised where it goes on"));
            }
            level += 1;
        }
        let caught = BreakPoint { frames: of.at.frames[..=level].to_vec(), reason: of.at.reason.clone() };
        let exception = self.emitter.catch_guarded(guarded, of.at.handled().is_some())?;
        if of.at.handled().is_some() && caught.handled().is_none() {
            self.emitter.end_handling()?;
        }
        let (of, frame) =
            (&Break { at: &caught, sources: &of.sources[..=level], details: of.details }, caught.innermost());
        if level > 0 {
            // The frames that the instruction ran in stand for frames that the exception has left or is about to
            // leave. The frame that raises it again adds no traceback entry.
            let trim = resume::trim_traceback(self.trace.py, level)?;
            self.begin_call(|cg| cg.load_const(trim))?;
            self.op(Op::LOAD_FAST, exception)?;
            self.end_call(1)?;
            self.op(Op::POP_TOP, 0)?;
        }
        let depth = catcher(frame).unwrap_or(0);
        let stack = self.layout(frame, depth);
        let raised = Some(Value::Left(exception));
        self.hand_over(of, &BreakSide { place: frame.at, entry: Entry::Raise, stack: &stack, raised })
    }

    /// Slots of values whose destruction is observable and that an exception removes from the stacks as it leaves the
    /// frames. The traceback would keep them alive in the new code's frame. They are in the order in which they die.
    fn dying_with_stack(&self, of: &Break<'_, '_>) -> Vec<usize> {
        if of.is_caught() || of.at.is_between() || of.at.handled().is_some() {
            return Vec::new();
        }
        let frames = of.at.frames.iter().rev();
        let going = frames.flat_map(|frame| {
            // Arguments of a call are variables of the called function.
            let is_local = |value: VarId| of.at.frames.iter().any(|frame| frame.locals.contains(&Some(value)));
            let values = frame.stack.iter().rev().filter(move |value| !is_local(**value));
            values.filter(|value| self.trace.is_observable_when_dropped(**value))
        });
        going.filter_map(|value| self.holder(*value)).collect()
    }

    /// Slot of the new code's local that holds a value.
    fn holder(&self, value: VarId) -> Option<usize> {
        match self.trace.trackers.get(self.trace.vars.tracker(value)) {
            _ if self.slots.hold(value) => self.slots.of(value).map(|slot| slot as usize),
            Tracker::Local { slot, .. } => self.slots.of_argument(*slot).map(|slot| slot as usize),
            _ => None,
        }
    }

    /// Writes the handler for an exception of the breaking instruction that leaves the frames. A traceback keeps the
    /// new code's frame, which should then hold only the function's own variables.
    fn drop_and_raise(&mut self, of: &Break<'_, '_>, guarded: Label, going: Vec<usize>) -> Flow<()> {
        let exception = self.emitter.catch_guarded(guarded, of.at.handled().is_some())?;
        let others = self.other_slots(of).filter(|slot| *slot != exception as usize && !going.contains(slot));
        let slots: Vec<usize> = going.iter().copied().chain(others).collect();
        self.unset(slots)?;
        self.emitter.before_reraise()?;
        self.load_raised(Value::Left(exception))?;
        self.emitter.reraise()
    }

    /// Uses the outermost frame's own cells as the real ones from here on.
    fn adopt_cells(&mut self, root: &Checkpoint) {
        for (index, &cell) in root.cells.iter().take(self.root.code.cellvars.len()).enumerate() {
            if cell != self.trace.null() {
                self.slots.cells.insert(cell, index);
            }
        }
    }

    /// Saves a value before the breaking instruction runs, unless the instruction cannot change what the value's
    /// tracker leads to.
    fn keep_unless_stable(&mut self, value: VarId) -> Flow<()> {
        let stable = match self.trace.trackers.get(self.trace.vars.tracker(value)) {
            // The contents of a cell are about to be replaced.
            Tracker::Local { name, .. } => !self.root.code.cellvars.iter().any(|cell| **cell == **name),
            Tracker::Constant(_) | Tracker::Registered(_) | Tracker::GuardedKey(_) => true,
            _ => false,
        };
        if stable || self.slots.cells.contains_key(&value) {
            return Ok(());
        }
        self.keep(value)
    }

    /// Drops arguments that the program has dropped by now, before the breaking instruction runs, which may observe
    /// them.
    fn forget_arguments(&mut self, live: &[VarId]) -> Flow<()> {
        let held: FxHashSet<&str> = live
            .iter()
            .filter_map(|&value| match self.trace.trackers.get(self.trace.vars.tracker(value)) {
                Tracker::Local { name, .. } => Some(&**name),
                _ => None,
            })
            .collect();
        let code = &self.root.code;
        let dropped = |slot: &usize| {
            let name = &code.varnames[*slot];
            !held.contains(&**name) && !code.cellvars.contains(name)
        };
        let slots: Vec<usize> = (0..code.total_args()).filter(dropped).collect();
        self.slots.drop_arguments(slots.iter().map(|slot| *slot as u32));
        self.forget(slots)
    }

    /// Stores classes made in the trace into their cells before other values are made, whose methods may look for
    /// them there.
    fn store_classes(&mut self) -> Flow<()> {
        let arguments = self.root.code.total_args();
        let mut cells: Vec<(VarId, usize)> = self.slots.cells.iter().map(|(cell, index)| (*cell, *index)).collect();
        cells.sort_by_key(|(_, index)| *index);
        for (cell, index) in cells {
            let Some(class) = self.trace.vars.get(cell).children().first().copied() else { continue };
            let made = matches!(self.trace.trackers.get(self.trace.vars.tracker(class)), Tracker::RealObject(_));
            if made && !self.root.code.varnames[..arguments].contains(&self.root.code.cellvars[index]) {
                self.load(class)?;
                self.emitter.cell_op(Op::STORE_DEREF, index)?;
            }
        }
        Ok(())
    }

    fn store_cells(&mut self) -> Flow<()> {
        let mut cells: Vec<(VarId, usize)> = self.slots.cells.iter().map(|(cell, index)| (*cell, *index)).collect();
        cells.sort_by_key(|(_, index)| *index);
        for (cell, _) in &cells {
            for contents in self.trace.vars.get(*cell).children() {
                self.keep(contents)?;
            }
        }
        let arguments = self.root.code.total_args();
        for (cell, index) in cells {
            if let Some(contents) = self.trace.vars.get(cell).children().first().copied() {
                self.load(contents)?;
                self.emitter.cell_op(Op::STORE_DEREF, index)?;
            } else if self.root.code.varnames[..arguments].contains(&self.root.code.cellvars[index]) {
                self.emitter.cell_op(Op::DELETE_DEREF, index)?;
            }
        }
        Ok(())
    }

    fn go_on(&mut self, of: &Break<'_, '_>, place: Label, stack: &[Item]) -> Flow<()> {
        // Behind a call of the prologue, the finish of the original instruction is still to be done.
        let call = place.0.checked_sub(1).map(Label);
        let source = &of.sources[of.sources.len() - 1];
        let finish = call.and_then(|call| source.finish_at(call)).filter(|finish| *finish != Finish::Keep);
        let (place, entry) = match (call, finish) {
            (Some(call), Some(finish)) => (call, Entry::Finish(finish)),
            _ => (place, Entry::Next),
        };
        self.hand_over(of, &BreakSide { place, entry, stack, raised: None })
    }
}

fn cannot(why: impl Into<String>) -> Unwind {
    Unwind::fallback(ReasonId::CannotRestore, why)
}
