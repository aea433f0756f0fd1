//! Chooses where to cut a long program: between operations where few values cross.

use std::collections::HashMap;

use super::pieces::{Operation, PieceRole};

/// For each value, the index of the last operation that takes it. A result of the program counts as taken after all
/// operations.
pub(super) fn last_taken(operations: &[Operation<'_>], results: &[u64]) -> HashMap<u64, usize> {
    let taken =
        operations.iter().enumerate().flat_map(|(at, operation)| operation.taken.iter().map(move |&id| (id, at)));
    taken.chain(results.iter().map(|&id| (id, operations.len()))).collect()
}

/// Returns the indices of the operations before which to cut, so that no piece has more than `longest` operations.
pub(super) fn places(operations: &[Operation<'_>], results: &[u64], longest: usize) -> Vec<usize> {
    let crossing = crossing(operations, &last_taken(operations, results));
    let mut places = Vec::new();
    // The parameters stand before all operations.
    let mut start = operations.iter().position(|operation| operation.role == PieceRole::Computed).unwrap_or(0);
    while operations.len() - start > longest {
        let Some(place) = best(&crossing, start + longest.div_ceil(2), start + longest) else { break };
        places.push(place);
        start = place;
    }
    places
}

/// Returns the position that the fewest values cross; of several, the last.
fn best(crossing: &[Option<usize>], from: usize, to: usize) -> Option<usize> {
    let places = (from..=to).filter_map(|place| crossing[place].map(|values| (values, place)));
    places.min_by_key(|&(values, place)| (values, std::cmp::Reverse(place))).map(|(_, place)| place)
}

/// For each position before an operation, the number of values that cross it. `None` if one of them cannot be given to
/// another program.
fn crossing(operations: &[Operation<'_>], last_taken: &HashMap<u64, usize>) -> Vec<Option<usize>> {
    let mut begin = vec![(0_isize, 0_isize); operations.len() + 2];
    for (at, operation) in operations.iter().enumerate().filter(|(_, operation)| operation.role == PieceRole::Computed)
    {
        for id in &operation.given {
            let Some(&last) = last_taken.get(id).filter(|last| **last > at) else { continue };
            let (count, kept) = (1, isize::from(!operation.may_cross));
            begin[at + 1].0 += count;
            begin[at + 1].1 += kept;
            begin[last + 1].0 -= count;
            begin[last + 1].1 -= kept;
        }
    }
    let running = begin.iter().scan((0, 0), |sum, (count, kept)| {
        *sum = (sum.0 + count, sum.1 + kept);
        Some(*sum)
    });
    running.map(|(count, kept)| if kept == 0 { usize::try_from(count).ok() } else { None }).collect()
}
