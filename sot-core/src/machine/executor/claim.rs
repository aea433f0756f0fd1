//! Claims: a handler states that its instruction does nothing but call one Python function and a known finish. Behind
//! a break in that function, a resume function can then go on with its frame, and the caller's resume function behind
//! the instruction.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyList, PyString, PyTuple, PyType};

use super::{BinaryOp, CompareOp, OpcodeExecutor};
use crate::cpython;
use crate::emit;
use crate::error::Flow;
use crate::machine::variable::VarId;
use crate::resume_point::{Answer, AnswerUse, Asked, Finish, Operation};

/// What becomes of the result of a call.
#[derive(Clone, Debug)]
pub struct Claim {
    /// What the instruction does with it.
    pub finish: Finish,
    /// What lies on the stack below it, in the place of the operands.
    pub below: Vec<VarId>,
}

/// What the present instruction asks or calls, and all that it does besides, where that is known.
#[derive(Default)]
pub struct Claims {
    direct: Option<(VarId, Claim)>,
}

impl Claims {
    /// A new instruction, which claims nothing yet.
    pub(super) fn clear(&mut self) {
        self.direct = None;
    }

    /// Whether nothing is claimed.
    pub(super) fn is_empty(&self) -> bool {
        self.direct.is_none()
    }

    /// The present instruction does nothing but ask `object` for something, and this.
    pub fn direct(&mut self, object: VarId, finish: Finish) {
        self.above(object, finish, Vec::new());
    }

    /// The same, and leaves something below the result.
    pub fn above(&mut self, object: VarId, finish: Finish, below: Vec<VarId>) {
        self.direct = Some((object, Claim { finish, below }));
    }

    /// The present instruction applies an operator to two operands.
    pub fn operator(&mut self, operation: Operation, lhs: VarId, rhs: VarId) {
        self.above(lhs, Finish::Operator(operation), vec![lhs, rhs]);
    }

    /// The same, and asks for the truth of what it gives.
    pub fn test(&mut self, operation: Operation, lhs: VarId, rhs: VarId) {
        self.above(lhs, Finish::Test(operation), vec![lhs, rhs]);
    }

    /// The present instruction asks for the truth of an object, to do this with it.
    pub fn truth(&mut self, object: VarId, then: AnswerUse, below: Vec<VarId>) {
        self.above(object, Finish::Answer(Answer::Truth, then), below);
    }

    /// Whether all that the present instruction does is the call of the C function that asks. From here on that claims
    /// nothing.
    pub fn take_call(&mut self) -> bool {
        self.take().is_some_and(|(_, claim)| claim.finish == Finish::Keep && claim.below.is_empty())
    }

    /// All that the C function does that is being called is to ask this of another object.
    pub fn instead(&mut self, object: VarId) {
        if let Some((claimed, _)) = &mut self.direct {
            *claimed = object;
        }
    }

    /// The instruction asks this object for nothing.
    pub fn keep_of(&mut self, object: VarId) {
        self.direct.take_if(|(claimed, _)| *claimed != object);
    }

    /// The object is asked by a special method, whose answer C code checks.
    pub fn answer(&mut self, of: VarId, answer: Answer) {
        let Some((claimed, mut claim)) = self.direct.take() else { return };
        claim.finish = match (claim.finish, answer) {
            (Finish::Answer(Answer::Truth, then), Answer::Length) => Finish::Answer(Answer::Filled, then),
            (Finish::Answer(_, then), Answer::Truth | Answer::Found) => Finish::Answer(answer, then),
            // `object.__format__` and `object.__str__` ask for another text, and give it.
            (Finish::Answer(Answer::Format | Answer::Str, then), Answer::Str) => Finish::Answer(Answer::Str, then),
            (Finish::Keep, _) => Finish::Answer(answer, AnswerUse::Leave),
            _ => return,
        };
        if claimed == of {
            self.direct = Some((claimed, claim));
        }
    }

    /// The instruction does more than what it asks next.
    pub fn take(&mut self) -> Option<(VarId, Claim)> {
        self.direct.take()
    }

    /// It does not, after all.
    pub fn put_back(&mut self, claim: Option<(VarId, Claim)>) {
        self.direct = claim;
    }

    /// All that is asked of one object is what is asked of another one.
    pub fn pass(&mut self, from: VarId, to: VarId) {
        if let Some((claimed, _)) = self.direct.as_mut().filter(|(claimed, _)| *claimed == from) {
            *claimed = to;
        }
    }

    /// All that is left of calling a class is to initialize the instance.
    pub fn made(&mut self, class: VarId, init: VarId, instance: VarId) {
        let simple =
            |(of, claim): &(VarId, Claim)| *of == class && claim.finish == Finish::Keep && claim.below.is_empty();
        if self.direct.as_ref().is_some_and(simple) {
            self.above(init, Finish::Made, vec![instance]);
        }
    }

    /// The left operand is asked first for the operator in place, and then for the plain one.
    pub(super) fn in_place(&mut self) {
        if let Some((_, Claim { finish: Finish::Operator(operation), .. })) = &mut self.direct {
            *operation = operation.of(Asked::InPlace);
        }
    }

    /// The left operand knows no answer, and was not asked by a call: the right one is all there is to ask.
    pub(super) fn right(&mut self, lhs: VarId, rhs: VarId) {
        if let Some((claimed, claim)) = self.direct.as_mut().filter(|(claimed, _)| *claimed == lhs) {
            if let Finish::Operator(operation) | Finish::Test(operation) = &mut claim.finish {
                *operation = operation.of(Asked::Right);
                *claimed = rhs;
            }
        }
    }
}

impl OpcodeExecutor<'_> {
    /// What the C function being called does behind its next call of `function` is to call another one with these
    /// arguments and the result.
    pub fn claim_rest(&mut self, function: VarId, rest: VarId, args: &[VarId]) {
        let null = self.stack.null();
        let below = emit::callable(rest, null).into_iter().chain(args.iter().copied()).collect();
        self.claims.above(function, Finish::Apply(args.len() as u32 + 1), below);
    }
}

/// The left operand is asked first. Where a C type may have a say after it, only CPython can tell what comes then.
pub(super) fn claim_left(cx: &mut OpcodeExecutor<'_>, lhs: VarId, rhs: VarId, right_first: bool) -> Flow<()> {
    if cx.claims.is_empty() {
        return Ok(());
    }
    let (left, right) = (cx.type_of(lhs)?, cx.type_of(rhs)?);
    if right_first || is_sequence(cx, &left)? || is_sequence(cx, &right)? {
        cx.claims.take();
    }
    Ok(())
}

/// Whether C code takes it for a sequence.
fn is_sequence(cx: &OpcodeExecutor<'_>, ty: &Bound<'_, PyAny>) -> Flow<bool> {
    let py = cx.py;
    let sequences = [
        py.get_type::<PyList>(),
        py.get_type::<PyTuple>(),
        py.get_type::<PyString>(),
        py.get_type::<PyBytes>(),
        py.get_type::<PyByteArray>(),
    ];
    let ty = ty.cast::<PyType>().map_err(PyErr::from)?;
    let is_derived = sequences.iter().any(|sequence| cpython::is_subtype(ty, sequence));
    let has_items = || cpython::type_lookup(ty, intern!(py, "__getitem__")).is_some();
    Ok(is_derived || !cpython::is_heap_type(ty) && has_items())
}

impl From<(BinaryOp, bool)> for Operation {
    fn from((op, inplace): (BinaryOp, bool)) -> Self {
        Operation::Binary { op, inplace, asked: Asked::Left }
    }
}

impl From<CompareOp> for Operation {
    fn from(op: CompareOp) -> Self {
        Operation::Compare { op, asked: Asked::Left }
    }
}
