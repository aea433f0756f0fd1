//! Unary operators.

use sot_core::executor::UnaryOp;
use sot_core::opcode;

opcode! { UNARY_POSITIVE [3.8..3.12] (value -- result) => |cx, _| cx.unary(UnaryOp::Positive, value) }
opcode! { UNARY_NEGATIVE [3.8..3.14] (value -- result) => |cx, _| cx.unary(UnaryOp::Negative, value) }
opcode! { UNARY_INVERT [3.8..3.14] (value -- result) => |cx, _| cx.unary(UnaryOp::Invert, value) }
opcode! { UNARY_NOT [3.8..3.14] (value -- result) => |cx, _| cx.not(value) }
