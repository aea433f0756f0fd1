//! How the size of a graph's value follows from the sizes of the graph's inputs.

use pyo3::prelude::*;

/// A size as the sum of a constant, of products of input sizes, and of a quotient.
pub struct SizeFormula {
    /// The constant.
    pub constant: i64,
    /// The products.
    pub products: Vec<SizeProduct>,
    /// The quotient, as that of a convolution with strides.
    pub quotient: Option<SizeQuotient>,
    /// Pairs of input sizes. The formula holds only while the two of each pair are equal.
    pub equal: Vec<[InputSize; 2]>,
}

/// A factor, multiplied by input sizes. A factor of 0 names sizes that do not matter as long as the formula holds.
pub struct SizeProduct {
    /// The factor.
    pub factor: i64,
    /// The input sizes.
    pub sizes: Vec<InputSize>,
}

/// An input size divided by a number, rounded down, plus a number.
pub struct SizeQuotient {
    /// The input size.
    pub size: InputSize,
    /// The divisor.
    pub divisor: i64,
    /// The formula holds only while the division has this remainder.
    pub remainder: i64,
    /// What is added to the quotient.
    pub plus: i64,
}

/// An open size of an input of the graph.
pub struct InputSize {
    /// The builder's value of the input.
    pub input: Py<PyAny>,
    /// The dimension.
    pub axis: usize,
    /// The formula holds only while the size is at least this one.
    pub from: i64,
    /// The formula holds only while the size is at most this one.
    pub up_to: i64,
}
