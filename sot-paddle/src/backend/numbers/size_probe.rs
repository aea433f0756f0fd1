//! How the open sizes of results follow from the sizes of inputs. The statements of the program are built once more,
//! with sizes for which the size of a result tells which inputs it comes from: prime numbers that lie far apart.
//!
//! A formula is taken if it gives the right size for this call, for the prime numbers, and for sizes in another order.
//! Paddle's rules for sizes are sums, products, quotients, minima and maxima. Such a rule that gives the formula's size
//! for a small size and for a large one gives it in between. So a formula is used up to the prime numbers only, and
//! from the smallest sizes on for which it was right. Where a large size gives something else, as for the first rows of
//! a table, prime numbers near to the sizes of this call are tried.

use std::sync::Arc;

use pyo3::prelude::*;
use sot_core::backend::{InputSize, SizeFormula, SizeProduct, SizeQuotient};
use sot_core::policy;

use crate::backend::numbers::twin::{Twin, TwinStatement};
use crate::backend::paddle::meta;
use crate::backend::paddle::Paddle;

/// Which inputs' sizes are the same in a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// None, so that a result's size tells exactly where it comes from.
    AllDiffer,
    /// Those that are the same in this call, as statements may need it: the sizes of a mask and of what it masks. A
    /// formula then holds only while they stay the same.
    SameAsNow,
    /// All: each is the smallest size that is left open. This shows that `x[3:]` is never of a negative size.
    Smallest,
    /// Those that are the same in this call, and those that are larger than a few.
    Small,
    /// None, and the inputs that come first have the larger sizes. This shows that a size is the minimum of two.
    Falling,
    /// Those that are the same in this call. Each is larger by one than in this call, which shows that a size follows
    /// from a remainder.
    Next,
    /// Those that are the same in this call. The larger a size is in this call, the smaller it is here, which shows
    /// that a size is the minimum of two.
    Mirrored,
    /// Those that are the same in this call. Each is a prime number near to the size of this call; the number is an
    /// index into [`NEAR`]. They show how the size of `table[:n]` follows from `n`, where the other probes ask for
    /// more rows than the table has.
    Near(usize),
}

/// The ways in which formulas are looked for, in this order, each with the ways that must not contradict it.
pub(crate) fn ways() -> impl Iterator<Item = (Way, &'static [Way])> {
    let far: [(Way, &[Way]); 2] = [(Way::AllDiffer, &[Way::Falling]), (Way::SameAsNow, &[])];
    let near = (0..NEAR.len()).map(|at| (Way::Near(at), &[Way::Next, Way::Mirrored][..]));
    far.into_iter().chain(near)
}

/// Sizes in a probe with near sizes, in tenths of the sizes of this call. The first probe that a formula is found in
/// says up to which sizes it holds, so that a table is used up in a few translations.
const NEAR: [i64; 5] = [40, 20, 14, 12, 10];

/// Number of the ways before `Near`.
const NOT_NEAR: usize = 7;

impl Way {
    fn place(self) -> usize {
        match self {
            Way::AllDiffer => 0,
            Way::SameAsNow => 1,
            Way::Smallest => 2,
            Way::Small => 3,
            Way::Falling => 4,
            Way::Next => 5,
            Way::Mirrored => 6,
            Way::Near(at) => NOT_NEAR + at,
        }
    }
}

/// The smallest size in a probe.
const LEAST: i64 = 10_007;
/// Least distance of two sizes in a probe.
const DISTANCE: i64 = 4_000;
/// The largest size in a probe with small sizes.
const SMALL: i64 = 16;
/// The largest size in a probe whose sizes fall.
const HIGHEST: i64 = 400_009;
/// Largest number that may be added to a size, and largest factor: small enough not to turn one probed size into
/// another.
const LARGEST_PART: i64 = 1_500;

/// Largest divisor in a formula, and largest number that may be added before the division: with larger ones, several
/// divisors give the same size of the probe.
const LARGEST_DIVISOR: i64 = 32;
const LARGEST_ADDED: i64 = 64;

/// The probes of a program.
#[derive(Default)]
pub(crate) struct SizeProbes {
    probes: [Option<SizeProbe>; NOT_NEAR + NEAR.len()],
}

/// A twin of the program with other sizes.
pub(crate) struct SizeProbe {
    pub(crate) twin: Twin,
    is_near: bool,
    sizes: Vec<ProbedSize>,
    /// Number of inputs and of statements that the twin has.
    inputs: usize,
    statements: usize,
    /// True if a statement cannot be built with these sizes. The values before it are known nevertheless.
    is_stuck: bool,
}

/// An open size of an input.
struct ProbedSize {
    input: Py<PyAny>,
    axis: usize,
    now: i64,
    probed: i64,
}

impl SizeProbes {
    /// Takes the probe of a way, with all inputs of the program. It is put back after the work on it.
    pub(crate) fn take(
        &mut self,
        paddle: &Arc<Paddle>,
        way: Way,
        twin: &Twin,
        py: Python<'_>,
    ) -> PyResult<Option<SizeProbe>> {
        let mut probe = match self.probes[way.place()].take() {
            Some(probe) => probe,
            None => SizeProbe {
                twin: Twin::new(py, paddle)?,
                is_near: matches!(way, Way::Near(_)),
                sizes: Vec::new(),
                inputs: 0,
                statements: 0,
                is_stuck: false,
            },
        };
        probe.add_inputs(paddle, way, twin, py)?;
        let is_another = match way {
            Way::AllDiffer | Way::Smallest | Way::Small | Way::Near(_) | Way::Next => true,
            Way::SameAsNow => probe.sizes.iter().enumerate().any(|(at, _)| probe.has_equal(at)),
            Way::Falling => probe.sizes.len() > 1,
            Way::Mirrored => probe.sizes.iter().any(|size| size.now != probe.sizes[0].now),
        };
        if is_another {
            return Ok(Some(probe));
        }
        self.put_back(way, probe);
        Ok(None)
    }

    /// Puts back the probe of a way.
    pub(crate) fn put_back(&mut self, way: Way, probe: SizeProbe) {
        self.probes[way.place()] = Some(probe);
    }

    /// Takes the twins of all probes.
    pub(crate) fn take_twins(&mut self) -> Vec<Twin> {
        self.probes.iter_mut().filter_map(Option::take).map(|probe| probe.twin).collect()
    }
}

impl SizeProbe {
    /// Adds the inputs that the program has got since the last time.
    fn add_inputs(&mut self, paddle: &Paddle, way: Way, twin: &Twin, py: Python<'_>) -> PyResult<()> {
        if self.inputs == twin.inputs().len() {
            return Ok(());
        }
        let (mut open, mut axes) = (Vec::new(), Vec::new());
        for input in twin.inputs() {
            let described = meta::of_value(paddle, input.value.bind(py))?;
            let is_open = |axis: usize| described.as_ref().is_some_and(|meta| meta.shape.get(axis) == Some(&None));
            axes.push(described.is_some().then(|| (0..input.sizes.len()).map(is_open).collect::<Vec<bool>>()));
            open.extend(input.sizes.iter().enumerate().filter(|(axis, _)| is_open(*axis)).map(|(_, size)| *size));
        }
        for (input, is_open) in twin.inputs().iter().zip(axes).skip(self.inputs) {
            let (value, Some(is_open)) = (input.value.bind(py), is_open) else { continue };
            let mut sizes = input.sizes.clone();
            for (axis, size) in sizes.iter_mut().enumerate() {
                if is_open[axis] {
                    let probed = self.size_for(way, *size, &open);
                    self.sizes.push(ProbedSize { input: value.clone().unbind(), axis, now: *size, probed });
                    *size = probed;
                }
            }
            self.twin.add_input(value, sizes)?;
        }
        self.inputs = twin.inputs().len();
        Ok(())
    }

    /// The size in the probe for an open size that is `now` in this call. `open`: all open sizes of this call.
    fn size_for(&self, way: Way, now: i64, open: &[i64]) -> i64 {
        let near = |tenths: i64| {
            if let Some(same) = self.sizes.iter().find(|size| size.now == now) {
                return same.probed;
            }
            let mut prime = prime_from((now.saturating_mul(tenths) / 10).saturating_add(1));
            while self.sizes.iter().any(|size| size.probed == prime) {
                prime = prime_from(prime + 1);
            }
            prime
        };
        match way {
            Way::Near(at) => return near(NEAR[at]),
            Way::Next => return now.saturating_add(1),
            Way::Mirrored => {
                let (least, most) =
                    open.iter().fold((now, now), |(least, most), &size| (least.min(size), most.max(size)));
                return least + most - now;
            }
            Way::Smallest => return policy::least_open().min(now),
            Way::Small => return now.min(SMALL),
            Way::Falling => {
                let last = self.sizes.iter().map(|size| size.probed).min().unwrap_or(HIGHEST + DISTANCE);
                return prime_from((last - DISTANCE).max(LEAST));
            }
            Way::AllDiffer | Way::SameAsNow => {}
        }
        let same = self.sizes.iter().find(|size| way == Way::SameAsNow && size.now == now);
        let last = self.sizes.iter().map(|size| size.probed).max().unwrap_or(LEAST - DISTANCE);
        same.map_or_else(|| prime_from((last + DISTANCE).max(now.saturating_mul(4))), |same| same.probed)
    }

    /// Returns the next statement that the twin does not have; `None` if there is none, or one could not be built.
    pub(crate) fn next_statement<'a>(&self, twin: &'a Twin) -> Option<&'a TwinStatement> {
        twin.statements().get(self.statements).filter(|_| !self.is_stuck)
    }

    /// Notes whether the next statement was built.
    pub(crate) fn note(&mut self, was_built: bool) {
        self.statements += usize::from(was_built);
        self.is_stuck = !was_built;
    }

    /// Finds the formula of a size that is `now` in this call.
    pub(crate) fn find(&self, value: &Bound<'_, PyAny>, axis: usize, now: i64) -> PyResult<Option<Found>> {
        let Some(probed) = self.twin.size(value, axis)? else { return Ok(None) };
        let known: Vec<(i64, i64)> = self.sizes.iter().map(|size| (size.now, size.probed)).collect();
        Ok(find(now, probed, &known))
    }

    /// True if a formula that another probe has found gives the right size in this one; `None` if this one does not
    /// tell the size.
    pub(crate) fn confirms(&self, found: &Found, value: &Bound<'_, PyAny>, axis: usize) -> PyResult<Option<bool>> {
        let size = self.twin.size(value, axis)?;
        let of = |at: usize| self.sizes.get(at).map(|size| size.probed);
        Ok(size.map(|size| match &found.quotient {
            Some(quotient) => of(quotient.size).is_some_and(|of| quotient.may_be(of, size)),
            None => found.size(of) == Some(size),
        }))
    }

    /// The sizes of this probe, by the position of the open size.
    pub(crate) fn probed_sizes(&self) -> Vec<i64> {
        self.sizes.iter().map(|size| size.probed).collect()
    }

    /// Returns a formula that was found, with the inputs' sizes. If it was not right for the smallest sizes, `from` are
    /// smaller sizes for which it was right; it then holds from these on, or from the present ones on.
    pub(crate) fn formula(&self, mut found: Found, from: Option<&HoldsFrom>, py: Python<'_>) -> SizeFormula {
        // Near sizes are asked for because a size that the formula does not contain may be too large for it, too.
        if from.is_some() || self.is_near {
            found.products.push(Product { factor: 0, sizes: (0..self.sizes.len()).collect() });
        }
        let least = |at: usize| match from {
            Some(HoldsFrom::Sizes(sizes)) => sizes.get(at).copied().unwrap_or(self.sizes[at].now),
            Some(HoldsFrom::Now) => self.sizes[at].now,
            None => 0,
        };
        let size = |at: usize| InputSize {
            input: self.sizes[at].input.clone_ref(py),
            axis: self.sizes[at].axis,
            from: least(at),
            up_to: self.sizes[at].probed,
        };
        let of_products = found.products.iter().flat_map(|product| product.sizes.clone());
        let used: Vec<usize> = of_products.chain(found.quotient.as_ref().map(|quotient| quotient.size)).collect();
        let twins = |at: usize| {
            let is_twin = move |other: &usize| *other != at && self.sizes[*other].probed == self.sizes[at].probed;
            (0..self.sizes.len()).filter(is_twin)
        };
        let products = found.products.iter().map(|product| SizeProduct {
            factor: product.factor,
            sizes: product.sizes.iter().map(|at| size(*at)).collect(),
        });
        SizeFormula {
            constant: found.constant,
            products: products.collect(),
            quotient: found.quotient.as_ref().map(|quotient| {
                let (now, divisor) = (self.sizes[quotient.size].now, quotient.divisor);
                let (size, plus) = (size(quotient.size), quotient.result - now / divisor);
                SizeQuotient { size, divisor, remainder: now % divisor, plus }
            }),
            equal: used.iter().flat_map(|&at| twins(at).map(move |other| [size(at), size(other)])).collect(),
        }
    }

    /// True if another size is the same as this one.
    fn has_equal(&self, at: usize) -> bool {
        self.sizes.iter().filter(|other| other.probed == self.sizes[at].probed).count() > 1
    }
}

/// The sizes from which on a formula holds.
pub(crate) enum HoldsFrom {
    /// Those of a probe.
    Sizes(Vec<i64>),
    /// Those of this call.
    Now,
}

/// A formula, with the positions of sizes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    constant: i64,
    products: Vec<Product>,
    quotient: Option<Quotient>,
}

/// `(size + added) // divisor`, for a number that is known to lie between two numbers.
#[derive(Debug, PartialEq, Eq)]
struct Quotient {
    size: usize,
    divisor: i64,
    added: (i64, i64),
    /// The quotient in this call.
    result: i64,
}

impl Quotient {
    /// Finds the divisor by which one size gives another one, in this call and in a probe.
    fn find(size: usize, now: (i64, i64), probed: (i64, i64)) -> Option<Quotient> {
        (2..=LARGEST_DIVISOR).find_map(|divisor| {
            let first = Quotient { size, divisor, added: (-LARGEST_ADDED, LARGEST_ADDED), result: now.1 };
            let added = first.overlap(now.0, now.1)?;
            let added = Quotient { added, ..first }.overlap(probed.0, probed.1)?;
            Some(Quotient { size, divisor, added, result: now.1 })
        })
    }

    /// The numbers that may be added if the quotient of `size` is `result`; `None` if there is none.
    fn overlap(&self, size: i64, result: i64) -> Option<(i64, i64)> {
        let least = self.divisor.checked_mul(result)?.checked_sub(size)?;
        let (from, to) = (self.added.0.max(least), self.added.1.min(least + self.divisor - 1));
        (from <= to).then_some((from, to))
    }

    fn may_be(&self, size: i64, result: i64) -> bool {
        self.overlap(size, result).is_some()
    }
}

impl Found {
    /// The size, for these sizes of the inputs.
    fn size(&self, of: impl Fn(usize) -> Option<i64>) -> Option<i64> {
        self.products.iter().try_fold(self.constant, |sum, product| {
            let value = product.sizes.iter().try_fold(product.factor, |value, at| value.checked_mul(of(*at)?))?;
            sum.checked_add(value)
        })
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Product {
    factor: i64,
    sizes: Vec<usize>,
}

/// Finds a formula for a size that is `now` in this call and `probed` in the probe. `known` are the input sizes, in
/// this call and in the probe: no size at all, a product of some of them with a small factor, the sum of two, or one of
/// them and a small number.
fn find(now: i64, probed: i64, known: &[(i64, i64)]) -> Option<Found> {
    if now == probed && !known.is_empty() && now <= LARGEST_PART {
        let all = Product { factor: 0, sizes: (0..known.len()).collect() };
        return Some(Found { constant: now, products: vec![all], quotient: None });
    }
    let one = |at: usize| Product { factor: 1, sizes: vec![at] };
    let (mut factor, mut of_now, mut sizes) = (probed, 1_i64, Vec::new());
    for (at, (size, prime)) in known.iter().enumerate() {
        let is_first = known[..at].iter().all(|(_, other)| other != prime);
        while is_first && factor != 0 && factor % prime == 0 {
            factor /= prime;
            of_now = of_now.checked_mul(*size)?;
            sizes.push(at);
        }
    }
    if !sizes.is_empty() {
        let is_right = factor.abs() <= LARGEST_PART && factor.checked_mul(of_now) == Some(now);
        return is_right.then(|| Found { constant: 0, products: vec![Product { factor, sizes }], quotient: None });
    }
    for (at, (size, prime)) in known.iter().enumerate() {
        let constant = probed - prime;
        if constant.abs() <= LARGEST_PART && size + constant == now {
            return Some(Found { constant, products: vec![one(at)], quotient: None });
        }
        let other = (at..known.len()).find(|other| (known[*other].0 + size, known[*other].1 + prime) == (now, probed));
        if let Some(other) = other {
            return Some(Found { constant: 0, products: vec![one(at), one(other)], quotient: None });
        }
    }
    // Near sizes are too small to tell one divisor from another.
    let far = known.iter().enumerate().filter(|(_, (_, prime))| *prime >= LEAST);
    far.into_iter().find_map(|(at, (size, prime))| {
        let quotient = Quotient::find(at, (*size, now), (*prime, probed))?;
        Some(Found { constant: 0, products: Vec::new(), quotient: Some(quotient) })
    })
}

/// The smallest prime number from `least` on.
fn prime_from(least: i64) -> i64 {
    let is_prime = |n: &i64| (2..=n.isqrt()).all(|divisor| n % divisor != 0);
    // There is a prime number between a number and twice this number.
    (least..least.saturating_mul(2)).find(is_prime).unwrap_or(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [(i64, i64); 3] = [(3, 10_007), (8, 14_009), (3, 18_013)];

    fn product(factor: i64, sizes: &[usize]) -> Product {
        Product { factor, sizes: sizes.to_vec() }
    }

    #[test]
    fn products_are_found() {
        assert_eq!(
            find(3, 18_013, &KNOWN),
            Some(Found { constant: 0, products: vec![product(1, &[2])], quotient: None })
        );
        assert_eq!(find(48, 2 * 10_007 * 14_009, &KNOWN).map(|found| found.products), Some(vec![product(2, &[0, 1])]));
        assert_eq!(find(9, 10_007 * 10_007, &KNOWN).map(|found| found.products), Some(vec![product(1, &[0, 0])]));
        assert_eq!(find(4, 10_007, &KNOWN), None);
    }

    #[test]
    fn sums_are_found() {
        assert_eq!(
            find(7, 14_008, &KNOWN),
            Some(Found { constant: -1, products: vec![product(1, &[1])], quotient: None })
        );
        let sum = find(11, 14_009 + 18_013, &KNOWN).map(|found| found.products);
        assert_eq!(sum, Some(vec![product(1, &[1]), product(1, &[2])]));
        assert_eq!(find(3, 5_003, &KNOWN), None);
    }

    #[test]
    fn quotients_are_found() {
        // 8 gives 4 with a stride of 2, and 14,009 gives 7,005.
        let found = find(4, 7_005, &KNOWN).and_then(|found| found.quotient);
        assert_eq!(found, Some(Quotient { size: 1, divisor: 2, added: (1, 1), result: 4 }));
        let quotient = Quotient { size: 0, divisor: 4, added: (0, 3), result: 2 };
        assert!(quotient.may_be(8, 2) && quotient.may_be(9, 3) && !quotient.may_be(9, 4));
    }

    #[test]
    fn a_size_that_stays_the_same_is_a_constant_while_all_sizes_are_small() {
        let found = find(1, 1, &KNOWN);
        assert_eq!(found, Some(Found { constant: 1, products: vec![product(0, &[0, 1, 2])], quotient: None }));
        assert_eq!(found.and_then(|found| found.size(|_| Some(7))), Some(1));
    }

    #[test]
    fn a_formula_gives_a_size() {
        let found = Found { constant: -3, products: vec![product(2, &[0, 1])], quotient: None };
        assert_eq!(found.size(|at| [5, 7].get(at).copied()), Some(67));
        assert_eq!(found.size(|_| None), None);
    }

    #[test]
    fn probed_sizes_are_prime() {
        assert_eq!(prime_from(LEAST), LEAST);
        assert_eq!(prime_from(LEAST + 1), 10_009);
    }
}
