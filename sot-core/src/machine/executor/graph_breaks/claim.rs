//! Claims: a handler states that its instruction does nothing but call one Python function and a known finish. If the
//! graph breaks in that function, the function's frame can then be continued by a resume function, and the caller by
//! another one, which begins with the finish.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyList, PyString, PyTuple, PyType};

use crate::cpython;
use crate::emit;
use crate::error::Flow;
use crate::machine::executor::{BinaryOp, CompareOp, OpcodeExecutor, Trace};
use crate::machine::variable::VarId;
use crate::resume_point::{AskedMethod, Finish, Operation, SpecialResult, SpecialResultUse};

/// A claim about one instruction: how it finishes after its call.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The finish: what the instruction does with the result of its call.
    pub finish: Finish,
    /// The values that lie on the stack below the result, in the place of the operands.
    pub below: Vec<VarId>,
}

/// The object that the present instruction *asks*, and the finish, if the instruction does nothing else. To ask an
/// object is to call it, or one of its special methods.
#[derive(Default)]
pub struct Claims {
    direct: Option<(VarId, Claim)>,
}

impl Claims {
    /// Drops the claim of the previous instruction, as a new one begins.
    pub(in crate::machine::executor) fn clear(&mut self) {
        self.direct = None;
    }

    /// True if nothing is claimed.
    pub(in crate::machine::executor) fn is_empty(&self) -> bool {
        self.direct.is_none()
    }

    /// Claims that the present instruction does nothing but ask `object`, and then `finish`.
    pub fn direct(&mut self, object: VarId, finish: Finish) {
        self.above(object, finish, Vec::new());
    }

    /// Like [`Claims::direct`], with values that stay below the result.
    pub fn above(&mut self, object: VarId, finish: Finish, below: Vec<VarId>) {
        self.direct = Some((object, Claim { finish, below }));
    }

    /// Claims that the present instruction applies an operator to two operands.
    pub fn operator(&mut self, operation: Operation, lhs: VarId, rhs: VarId) {
        self.above(lhs, Finish::Operator(operation), vec![lhs, rhs]);
    }

    /// Claims that the present instruction applies an operator and takes the truth of the result.
    pub fn test(&mut self, operation: Operation, lhs: VarId, rhs: VarId) {
        self.above(lhs, Finish::Test(operation), vec![lhs, rhs]);
    }

    /// Claims that the present instruction takes the truth of an object, and does `then` with it.
    pub fn truth(&mut self, object: VarId, then: SpecialResultUse, below: Vec<VarId>) {
        self.above(object, Finish::SpecialResult(SpecialResult::Truth, then), below);
    }

    /// True if the present instruction does nothing but call the C function whose handler calls this method. Takes
    /// the claim.
    pub fn take_call(&mut self) -> bool {
        self.take().is_some_and(|(_, claim)| claim.finish == Finish::Keep && claim.below.is_empty())
    }

    /// Claims that the C function being called does nothing but ask `object` in turn.
    pub fn redirect(&mut self, object: VarId) {
        if let Some((claimed, _)) = &mut self.direct {
            *claimed = object;
        }
    }

    /// Takes the claim back unless it is about this object.
    pub fn retain_claim_on(&mut self, object: VarId) {
        self.direct.take_if(|(claimed, _)| *claimed != object);
    }

    /// Claims that the object is asked by a special method, whose answer C code checks.
    pub fn special_result(&mut self, of: VarId, answer: SpecialResult) {
        let Some((claimed, mut claim)) = self.direct.take() else { return };
        claim.finish = match (claim.finish, answer) {
            (Finish::SpecialResult(SpecialResult::Truth, then), SpecialResult::Length) => {
                Finish::SpecialResult(SpecialResult::Filled, then)
            }
            (Finish::SpecialResult(_, then), SpecialResult::Truth | SpecialResult::Found) => {
                Finish::SpecialResult(answer, then)
            }
            // `object.__format__` and `object.__str__` return the text that another method has returned.
            (Finish::SpecialResult(SpecialResult::Format | SpecialResult::Str, then), SpecialResult::Str) => {
                Finish::SpecialResult(SpecialResult::Str, then)
            }
            (Finish::Keep, _) => Finish::SpecialResult(answer, SpecialResultUse::Leave),
            _ => return,
        };
        if claimed == of {
            self.direct = Some((claimed, claim));
        }
    }

    /// Takes the claim, because the instruction does more than its next call.
    pub fn take(&mut self) -> Option<(VarId, Claim)> {
        self.direct.take()
    }

    /// Puts a taken claim back, because the instruction does nothing more after all.
    pub fn put_back(&mut self, claim: Option<(VarId, Claim)>) {
        self.direct = claim;
    }

    /// Moves the claim from one object to another, which is asked in its place.
    pub fn pass(&mut self, from: VarId, to: VarId) {
        if let Some((claimed, _)) = self.direct.as_mut().filter(|(claimed, _)| *claimed == from) {
            *claimed = to;
        }
    }

    /// Claims that a call of a class does nothing more than initialise the instance.
    pub fn claim_init(&mut self, class: VarId, init: VarId, instance: VarId) {
        let simple =
            |(of, claim): &(VarId, Claim)| *of == class && claim.finish == Finish::Keep && claim.below.is_empty();
        if self.direct.as_ref().is_some_and(simple) {
            self.above(init, Finish::InitResult, vec![instance]);
        }
    }

    /// Notes that the left operand is asked for the operator in place, before the plain operator.
    pub(in crate::machine::executor) fn ask_in_place(&mut self) {
        if let Some((_, Claim { finish: Finish::Operator(operation), .. })) = &mut self.direct {
            *operation = operation.of(AskedMethod::InPlace);
        }
    }

    /// Moves the claim to the right operand: the left one had no answer and was not called.
    pub(in crate::machine::executor) fn ask_right_operand(&mut self, lhs: VarId, rhs: VarId) {
        if let Some((claimed, claim)) = self.direct.as_mut().filter(|(claimed, _)| *claimed == lhs) {
            if let Finish::Operator(operation) | Finish::Test(operation) = &mut claim.finish {
                *operation = operation.of(AskedMethod::Right);
                *claimed = rhs;
            }
        }
    }
}

impl OpcodeExecutor<'_> {
    /// Claims that the C function being called does nothing behind its next call of `function` but call `rest` with
    /// these arguments and the result.
    pub fn claim_rest(&mut self, function: VarId, rest: VarId, args: &[VarId]) {
        let null = self.trace.null();
        let below = emit::callable(rest, null).into_iter().chain(args.iter().copied()).collect();
        self.claims.above(function, Finish::Apply(args.len() as u32 + 1), below);
    }
}

/// Takes the claim of an operator back unless the left operand is asked first and no slot of a C type may follow,
/// because only CPython knows what such a slot does.
pub(in crate::machine::executor) fn claim_left(
    cx: &mut OpcodeExecutor<'_>,
    lhs: VarId,
    rhs: VarId,
    right_first: bool,
) -> Flow<()> {
    if cx.claims.is_empty() {
        return Ok(());
    }
    let (left, right) = (cx.type_of(lhs)?, cx.type_of(rhs)?);
    if right_first || is_sequence(&cx.trace, &left)? || is_sequence(&cx.trace, &right)? {
        cx.claims.take();
    }
    Ok(())
}

/// True if C code treats objects of this type as sequences.
fn is_sequence(trace: &Trace<'_>, ty: &Bound<'_, PyAny>) -> Flow<bool> {
    let py = trace.py;
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
        Operation::Binary { op, inplace, asked: AskedMethod::Left }
    }
}

impl From<CompareOp> for Operation {
    fn from(op: CompareOp) -> Self {
        Operation::Compare { op, asked: AskedMethod::Left }
    }
}
