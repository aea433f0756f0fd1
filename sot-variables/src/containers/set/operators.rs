//! Operators and comparisons of sets.

use std::rc::Rc;

use sot_core::error::Flow;
use sot_core::executor::{BinaryOp, OpcodeExecutor};
use sot_core::variable::VarId;

use super::{expect, SetVariable};
use crate::containers::hash_key::{HashKey, UniqueKeys};
use crate::containers::key_index::KeyIndex;
use crate::containers::replica;

/// Returns the distinct elements of a set or other iterable, in no particular order.
pub(crate) fn elements(cx: &mut OpcodeExecutor<'_>, source: VarId) -> Flow<Vec<Rc<HashKey>>> {
    if let Some(set) = cx.see_as::<SetVariable>(source)? {
        return Ok(set.keys.clone());
    }
    if let Some(dict) = crate::containers::dict::of(cx, source)? {
        return Ok(dict.entries.iter().map(|entry| Rc::clone(&entry.key)).collect());
    }
    let mut unique = UniqueKeys::default();
    cx.each(source, |cx, item| unique.add(cx, item))?;
    Ok(unique.into_keys())
}

pub(super) fn unique(cx: &mut OpcodeExecutor<'_>, items: Vec<VarId>) -> Flow<Vec<Rc<HashKey>>> {
    let mut unique = UniqueKeys::default();
    items.into_iter().try_for_each(|item| unique.add(cx, item))?;
    Ok(unique.into_keys())
}

/// True for operators that sets implement.
pub(crate) const fn is_set_operator(op: BinaryOp) -> bool {
    matches!(op, BinaryOp::And | BinaryOp::Or | BinaryOp::Subtract | BinaryOp::Xor)
}

/// Returns the elements of `left op right`.
pub(crate) fn combine(
    cx: &mut OpcodeExecutor<'_>,
    op: BinaryOp,
    left: &[Rc<HashKey>],
    right: &[Rc<HashKey>],
) -> Flow<Vec<Rc<HashKey>>> {
    Ok(match op {
        // Of two equal elements, CPython keeps the one of the smaller set; of the right set if the sizes are equal.
        BinaryOp::And if right.len() > left.len() => only(cx, left, right, true)?,
        BinaryOp::And => only(cx, right, left, true)?,
        BinaryOp::Subtract => only(cx, left, right, false)?,
        BinaryOp::Xor => [only(cx, left, right, false)?, only(cx, right, left, false)?].concat(),
        _ => [left.to_vec(), only(cx, right, left, false)?].concat(),
    })
}

/// Returns those elements of `these` that are in `others`, or that are not.
pub(crate) fn only(
    cx: &mut OpcodeExecutor<'_>,
    these: &[Rc<HashKey>],
    others: &[Rc<HashKey>],
    inside: bool,
) -> Flow<Vec<Rc<HashKey>>> {
    let index = KeyIndex::of(&cx.trace, others.iter());
    let mut found = Vec::new();
    for key in these {
        if index.find(cx, key, |at| &others[at])?.is_some() == inside {
            found.push(Rc::clone(key));
        }
    }
    Ok(found)
}

/// Simulates `left op right` for two sets. The result has the type of the left one.
pub(crate) fn operate(cx: &mut OpcodeExecutor<'_>, op: BinaryOp, left: VarId, right: VarId) -> Flow<VarId> {
    let found = replica::combined(cx, op, left, &[right])?;
    let frozen = expect(cx, left)?.frozen;
    Ok(SetVariable::make(cx, found, frozen))
}
