//! Formatted strings, with one opcode for each step (3.13).

use sot_core::opcode;
use sot_opcodes_py38::format::{convert, format};

opcode! { CONVERT_VALUE [3.13..3.14] (value -- text) => |cx, op| convert(cx, value, op.arg) }
opcode! { FORMAT_SIMPLE [3.13..3.14] (value -- text) => |cx, _| format(cx, value, None) }
opcode! { FORMAT_WITH_SPEC [3.13..3.14] (value, specification -- text)
=> |cx, _| format(cx, value, Some(specification)) }
