//! Paddle's own `psdb` means what `sot.psdb` does.

use sot_core::builtin;
use sot_variables::builtins::psdb;

builtin! { BREAKGRAPH = "paddle.jit.sot.psdb:breakgraph" => |cx, args| psdb::breakgraph(cx, args) }

builtin! { FALLBACK = "paddle.jit.sot.psdb:fallback" => |cx, args| psdb::fallback(cx, args) }

builtin! { IN_SOT = "paddle.jit.sot.psdb:in_sot" => |cx, args| psdb::in_sot(cx, args) }

builtin! { ASSERT_TRUE = "paddle.jit.sot.psdb:assert_true" => |cx, args| psdb::assert_true(cx, args) }

builtin! { PRINT = "paddle.jit.sot.psdb:print" => |cx, args| psdb::print(cx, args) }

builtin! { BREAKPOINT = "paddle.jit.sot.psdb:breakpoint" => |cx, args| psdb::breakpoint(cx, args) }
