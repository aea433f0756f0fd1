//! Merging of keywords with the NULL of the call above the callable (3.13).

use sot_core::opcode;
use sot_opcodes_py38::container::merge_keywords;
use sot_opcodes_py38::function::qualified_name;

opcode! {
    DICT_MERGE [3.13..3.14] (map -- )
        .reach(|arg| arg + 3).refuses_null("a call whose keywords are being merged")
        => |cx, op| merge_keywords(cx, op.arg, op.arg + 3, map, qualified_name)
}
