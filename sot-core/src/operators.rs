//! The operators of the language, with their special methods.

use std::borrow::Cow;

use pyo3::prelude::*;

use crate::language::LANGUAGE;

macro_rules! operators {
    ($($(#[$doc:meta])* $name:ident { $($variant:ident = $symbol:literal, $method:literal, $reflected:literal;)+ })+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[allow(missing_docs, reason = "named as in the operator module")]
        pub enum $name { $($variant,)+ }

        impl $name {
            /// All operators of the family.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// The operator as written.
            #[must_use]
            pub const fn symbol(self) -> &'static str {
                match self { $($name::$variant => $symbol,)+ }
            }

            /// Name of the left operand's special method.
            #[must_use]
            pub const fn method(self) -> &'static str {
                match self { $($name::$variant => $method,)+ }
            }

            /// Name of the right operand's special method.
            #[must_use]
            pub const fn reflected(self) -> &'static str {
                match self { $($name::$variant => $reflected,)+ }
            }
        }
    )+};
}

operators! {
    /// Binary operators.
    BinaryOp {
        Add = "+", "__add__", "__radd__";
        And = "&", "__and__", "__rand__";
        FloorDivide = "//", "__floordiv__", "__rfloordiv__";
        LeftShift = "<<", "__lshift__", "__rlshift__";
        MatrixMultiply = "@", "__matmul__", "__rmatmul__";
        Multiply = "*", "__mul__", "__rmul__";
        Remainder = "%", "__mod__", "__rmod__";
        Or = "|", "__or__", "__ror__";
        Power = "**", "__pow__", "__rpow__";
        RightShift = ">>", "__rshift__", "__rrshift__";
        Subtract = "-", "__sub__", "__rsub__";
        TrueDivide = "/", "__truediv__", "__rtruediv__";
        Xor = "^", "__xor__", "__rxor__";
    }
    /// Rich comparisons; the reflected method is the mirrored comparison.
    CompareOp {
        Less = "<", "__lt__", "__gt__";
        LessEqual = "<=", "__le__", "__ge__";
        Equal = "==", "__eq__", "__eq__";
        NotEqual = "!=", "__ne__", "__ne__";
        Greater = ">", "__gt__", "__lt__";
        GreaterEqual = ">=", "__ge__", "__le__";
    }
    /// Unary operators.
    UnaryOp {
        Positive = "+", "__pos__", "__pos__";
        Negative = "-", "__neg__", "__neg__";
        Invert = "~", "__invert__", "__invert__";
    }
}

/// True if this is the name of a special method of a binary operator or a comparison.
pub fn is_method_of_two(name: &Bound<'_, PyAny>) -> bool {
    let is_binary = |name: &str| BinaryOp::ALL.iter().any(|op| name == op.method() || name == op.reflected());
    let is_comparison = |name: &str| CompareOp::ALL.iter().any(|op| name == op.method());
    let name = name.extract::<Cow<'_, str>>();
    name.is_ok_and(|name| is_binary(&name) || is_comparison(&name))
}

impl BinaryOp {
    /// Name of the special method of the in-place form.
    #[must_use]
    pub fn inplace(self) -> String {
        format!("__i{}", &self.method()[2..])
    }

    /// True if no other method is tried after an in-place method that returns `NotImplemented`: before 3.10 this is
    /// so for `__ipow__`.
    pub fn is_final_in_place(self) -> bool {
        self == BinaryOp::Power && LANGUAGE.in_place_power_is_final
    }

    /// Applies the operator to real objects.
    pub fn apply<'py>(self, lhs: &Bound<'py, PyAny>, rhs: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            BinaryOp::Add => lhs.add(rhs),
            BinaryOp::And => lhs.bitand(rhs),
            BinaryOp::FloorDivide => lhs.floor_div(rhs),
            BinaryOp::LeftShift => lhs.lshift(rhs),
            BinaryOp::MatrixMultiply => lhs.matmul(rhs),
            BinaryOp::Multiply => lhs.mul(rhs),
            BinaryOp::Remainder => lhs.rem(rhs),
            BinaryOp::Or => lhs.bitor(rhs),
            BinaryOp::Power => lhs.pow(rhs, lhs.py().None()),
            BinaryOp::RightShift => lhs.rshift(rhs),
            BinaryOp::Subtract => lhs.sub(rhs),
            BinaryOp::TrueDivide => lhs.div(rhs),
            BinaryOp::Xor => lhs.bitxor(rhs),
        }
    }
}

impl CompareOp {
    /// The comparison with operands exchanged.
    #[must_use]
    pub const fn mirrored(self) -> CompareOp {
        match self {
            CompareOp::Less => CompareOp::Greater,
            CompareOp::LessEqual => CompareOp::GreaterEqual,
            CompareOp::Greater => CompareOp::Less,
            CompareOp::GreaterEqual => CompareOp::LessEqual,
            same => same,
        }
    }

    /// Applies the comparison to real objects.
    pub fn apply<'py>(self, lhs: &Bound<'py, PyAny>, rhs: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        use pyo3::pyclass::CompareOp as Raw;
        let raw = match self {
            CompareOp::Less => Raw::Lt,
            CompareOp::LessEqual => Raw::Le,
            CompareOp::Equal => Raw::Eq,
            CompareOp::NotEqual => Raw::Ne,
            CompareOp::Greater => Raw::Gt,
            CompareOp::GreaterEqual => Raw::Ge,
        };
        lhs.rich_compare(rhs, raw)
    }
}

impl UnaryOp {
    /// Applies the operator to a real object.
    pub fn apply<'py>(self, operand: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            UnaryOp::Positive => operand.pos(),
            UnaryOp::Negative => operand.neg(),
            UnaryOp::Invert => operand.bitnot(),
        }
    }
}
