//! New code for a frame whose graph breaks: the graph so far; stack and locals as CPython would have them; the
//! breaking instruction, run natively; and a hand-over to the resume function behind it (for a branch, one on each
//! side). If the break is in an inlined function, all frames down to it are laid out. The hand-over then has their
//! resume functions, each as an argument of its caller's.

mod hand_over;
mod places;
mod run;
mod variables;

use rustc_hash::FxHashSet;

use super::resumed_frame::{instruction_at, Reentry};
use super::{CodeGen, NewCode};
use crate::bytecode::{Instruction, Label, Op};
use crate::error::{Flow, ReasonId, Unwind};
use crate::machine::executor::{Block, BreakPoint, Checkpoint};
use crate::machine::variable::{Rebuild, VarId};
use crate::resume::{self, Entry, Finish, Item, ResumeSource, Value};
use crate::trace::{BreakDetails, BreakTrace, FinishedGraph};
use crate::tracker::Tracker;

/// The generator of new code that breaks.
struct BreakCodeGen<'a, 'py> {
    cg: CodeGen<'a, 'py>,
    at: &'a BreakPoint,
    /// The original code of each frame.
    sources: &'a [ResumeSource<'py>],
    details: BreakDetails,
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

impl<'a, 'py> CodeGen<'a, 'py> {
    /// Writes code that runs the graph, then the breaking instruction, and continues in a resume function.
    pub fn compile_break(self, end: BreakTrace<'a, 'py>) -> Flow<NewCode> {
        let BreakTrace { finished, at, sources, live, dropped, details } = end;
        BreakCodeGen { cg: self, at, sources, details }.compile(finished.graph, &live, &dropped)
    }
}

impl BreakCodeGen<'_, '_> {
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

    /// True if one of the outermost `count` frames handles an exception.
    fn is_handling(&self, count: usize) -> bool {
        self.at.frames[..count].iter().any(|frame| !frame.handled.is_empty())
    }

    fn compile(mut self, graph: Option<FinishedGraph>, live: &[VarId], dropped: &[VarId]) -> Flow<NewCode> {
        self.cg.emitter.set_position(instruction_at(self.at.root()).position);
        self.adopt_cells();
        let graphs = self.cg.call_graph(graph)?;
        let defers_signals = innermost_try(self.at).is_some() || self.cg.ranges.is_beginning();
        if defers_signals {
            self.cg.hold_signals()?;
        }
        self.cg.end_beginning()?;
        self.restore_state(live, dropped)?;
        self.begin_handling()?;
        if !self.at.is_between() {
            self.show_variables()?;
        }
        self.run_and_go_on(defers_signals)?;
        self.cg.finish(graphs)
    }

    /// Leaves what the program would have left before the breaking instruction: live values, and writes.
    fn restore_state(&mut self, live: &[VarId], dropped: &[VarId]) -> Flow<()> {
        self.store_classes()?;
        for &value in live {
            self.keep_unless_stable(value)?;
        }
        for frame in &self.at.frames[1..] {
            self.cg.keep_globals(frame.globals)?;
        }
        let dropped = self.keep_dropped(dropped)?;
        let kept = self.cg.emitter.locals();
        self.cg.restore_effects()?;
        self.store_cells()?;
        self.cg.emitter.unset(dropped)?;
        self.forget_written(live, kept)?;
        self.forget_arguments(live)
    }

    /// Drops objects that were loaded only for the writes, into the locals from `first` on, before the breaking
    /// instruction runs: a weak reference may show that the program has dropped them by now.
    fn forget_written(&mut self, live: &[VarId], first: usize) -> Flow<()> {
        let trace = self.cg.trace;
        // What a global or a cell leads to lives on.
        let root = |value| trace.trackers.get(trace.trackers.root(trace.vars.tracker(value)));
        let may_die = |value| matches!(root(value), Tracker::Local { .. }) && live.binary_search(&value).is_err();
        let slots = self.cg.slots.remove_unless(first as u32, |value| !may_die(value));
        self.cg.emitter.unset(slots.into_iter().map(|slot| slot as usize))
    }

    /// Begins the handling of the exception that the program handles at the break.
    fn begin_handling(&mut self) -> Flow<()> {
        let Some(exception) = self.at.handled() else { return Ok(()) };
        let block = self.cg.emitter.before_handling()?;
        self.cg.load_raised(Value::Known(exception))?;
        self.cg.emitter.begin_handling(block)
    }

    /// Runs the breaking instruction, hands the frames over, and handles an exception of the instruction.
    fn run_and_go_on(&mut self, defers_signals: bool) -> Flow<()> {
        let going = self.dying_with_stack();
        let hold = if self.is_caught() { Some(resume::hold_signals(self.cg.trace.py)?) } else { None };
        let guarded = self.cg.emitter.begin_guarded(!self.at.is_between(), hold)?;
        if defers_signals && !self.at.is_between() {
            self.cg.release_signals()?;
        }
        self.break_here()?;
        if self.is_caught() {
            self.hand_over_exception(guarded)
        } else if !self.at.is_between() {
            self.drop_and_raise(guarded, going)
        } else {
            Ok(())
        }
    }

    /// Writes the handler for exceptions of the breaking instruction: the resume function of the frame that catches
    /// the exception starts by raising it.
    fn hand_over_exception(&mut self, guarded: Label) -> Flow<()> {
        let (frames, mut level) = (&self.at.frames, catching(self.at).unwrap_or(0));
        if self.sources[level].finish_at(frames[level].at) == Some(Finish::Next) {
            if level == frames.len() - 1 {
                return Err(cannot("what ends a loop is raised where it goes on"));
            }
            level += 1;
        }
        let is_handling = self.is_handling(frames.len());
        let exception = self.cg.emitter.catch_guarded(guarded, is_handling)?;
        if is_handling && !self.is_handling(level + 1) {
            self.cg.emitter.end_handling()?;
        }
        if level > 0 {
            // The frames that the instruction ran in stand for frames that the exception has left or is about to
            // leave. The frame that raises it again adds no traceback entry.
            let trim = resume::trim_traceback(self.cg.trace.py, level)?;
            self.cg.begin_call_of(trim)?;
            self.cg.op(Op::LOAD_FAST, exception)?;
            self.cg.end_call(1)?;
            self.cg.op(Op::POP_TOP, 0)?;
        }
        let frame = &frames[level];
        let stack = self.layout(frame, catcher(frame).unwrap_or(0));
        let raise = Reentry { place: frame.at, entry: Entry::Raise, stack };
        self.hand_over_raising(level, raise, Value::Left(exception))
    }

    /// Slots of values whose destruction is observable and that an exception removes from the stacks as it leaves the
    /// frames. The traceback would keep them alive in the new code's frame. They are in the order in which they die.
    fn dying_with_stack(&self) -> Vec<usize> {
        if self.is_caught() || self.at.is_between() || self.at.handled().is_some() {
            return Vec::new();
        }
        let frames = self.at.frames.iter().rev();
        let going = frames.flat_map(|frame| {
            // Arguments of a call are variables of the called function.
            let is_local = |value: VarId| self.at.frames.iter().any(|frame| frame.locals.contains(&Some(value)));
            let values = frame.stack.iter().rev().filter(move |value| !is_local(**value));
            values.filter(|value| self.cg.trace.is_observable_when_dropped(**value))
        });
        going.filter_map(|value| self.holder(*value)).collect()
    }

    /// Slot of the new code's local that holds a value.
    fn holder(&self, value: VarId) -> Option<usize> {
        match self.cg.trace.trackers.get(self.cg.trace.vars.tracker(value)) {
            _ if self.cg.slots.hold(value) => self.cg.slots.of(value).map(|slot| slot as usize),
            Tracker::Local { slot, .. } => self.cg.slots.of_argument(*slot).map(|slot| slot as usize),
            _ => None,
        }
    }

    /// Writes the handler for an exception of the breaking instruction that leaves the frames. A traceback keeps the
    /// new code's frame, which should then hold only the function's own variables.
    fn drop_and_raise(&mut self, guarded: Label, going: Vec<usize>) -> Flow<()> {
        let exception = self.cg.emitter.catch_guarded(guarded, self.at.handled().is_some())?;
        let others = self.other_slots().filter(|slot| *slot != exception as usize && !going.contains(slot));
        let slots: Vec<usize> = going.iter().copied().chain(others).collect();
        self.cg.emitter.unset(slots)?;
        self.cg.emitter.before_reraise()?;
        self.cg.load_raised(Value::Left(exception))?;
        self.cg.emitter.reraise()
    }

    /// Uses the outermost frame's own cells as the real ones from here on.
    fn adopt_cells(&mut self) {
        let root = self.at.root();
        for (index, &cell) in root.cells.iter().take(self.cg.root.code.cellvars.len()).enumerate() {
            if cell != self.cg.trace.null() {
                self.cg.slots.cells.insert(cell, index);
            }
        }
    }

    /// Saves a value before the breaking instruction runs, unless the instruction cannot change what the value's
    /// tracker leads to.
    fn keep_unless_stable(&mut self, value: VarId) -> Flow<()> {
        let stable = match self.cg.trace.trackers.get(self.cg.trace.vars.tracker(value)) {
            // The contents of a cell are about to be replaced.
            Tracker::Local { name, .. } => !self.cg.root.code.cellvars.iter().any(|cell| **cell == **name),
            Tracker::Constant(_) | Tracker::Registered(_) | Tracker::GuardedKey(_) => true,
            _ => false,
        };
        if stable || self.cg.slots.cells.contains_key(&value) {
            return Ok(());
        }
        self.cg.keep(value)
    }

    /// Drops arguments that the program has dropped by now, before the breaking instruction runs, which may observe
    /// them.
    fn forget_arguments(&mut self, live: &[VarId]) -> Flow<()> {
        let held: FxHashSet<&str> = live
            .iter()
            .filter_map(|&value| match self.cg.trace.trackers.get(self.cg.trace.vars.tracker(value)) {
                Tracker::Local { name, .. } => Some(&**name),
                _ => None,
            })
            .collect();
        let code = &self.cg.root.code;
        let dropped = |slot: &usize| {
            let name = &code.varnames[*slot];
            !held.contains(&**name) && !code.cellvars.contains(name)
        };
        let slots: Vec<usize> = (0..code.total_args()).filter(dropped).collect();
        self.cg.slots.drop_arguments(slots.iter().map(|slot| *slot as u32));
        self.cg.emitter.forget(slots)
    }

    /// Stores classes made in the trace into their cells before other values are made, whose methods may look for
    /// them there.
    fn store_classes(&mut self) -> Flow<()> {
        let arguments = self.cg.root.code.total_args();
        let mut cells: Vec<(VarId, usize)> = self.cg.slots.cells.iter().map(|(cell, index)| (*cell, *index)).collect();
        cells.sort_by_key(|(_, index)| *index);
        for (cell, index) in cells {
            let Some(class) = self.cg.trace.vars.get(cell).children().first().copied() else { continue };
            let made = matches!(self.cg.trace.trackers.get(self.cg.trace.vars.tracker(class)), Tracker::RealObject(_));
            if made && !self.cg.root.code.varnames[..arguments].contains(&self.cg.root.code.cellvars[index]) {
                self.cg.load(class)?;
                self.cg.emitter.cell_op(Op::STORE_DEREF, index)?;
            }
        }
        Ok(())
    }

    fn store_cells(&mut self) -> Flow<()> {
        let mut cells: Vec<(VarId, usize)> = self.cg.slots.cells.iter().map(|(cell, index)| (*cell, *index)).collect();
        cells.sort_by_key(|(_, index)| *index);
        for (cell, _) in &cells {
            for contents in self.cg.trace.vars.get(*cell).children() {
                self.cg.keep(contents)?;
            }
        }
        let arguments = self.cg.root.code.total_args();
        for (cell, index) in cells {
            if let Some(contents) = self.cg.trace.vars.get(cell).children().first().copied() {
                self.cg.load(contents)?;
                self.cg.emitter.cell_op(Op::STORE_DEREF, index)?;
            } else if self.cg.root.code.varnames[..arguments].contains(&self.cg.root.code.cellvars[index]) {
                self.cg.emitter.cell_op(Op::DELETE_DEREF, index)?;
            }
        }
        Ok(())
    }

    fn go_on(&mut self, place: Label, stack: Vec<Item>) -> Flow<()> {
        // Behind a call of the prologue, the finish of the original instruction is still to be done.
        let call = place.0.checked_sub(1).map(Label);
        let source = &self.sources[self.sources.len() - 1];
        let finish = call.and_then(|call| source.finish_at(call)).filter(|finish| *finish != Finish::Keep);
        let (place, entry) = match (call, finish) {
            (Some(call), Some(finish)) => (call, Entry::Finish(finish)),
            _ => (place, Entry::Next),
        };
        self.hand_over(Reentry { place, entry, stack })
    }
}

fn cannot(why: impl Into<String>) -> Unwind {
    Unwind::fallback(ReasonId::CannotRestore, why)
}
