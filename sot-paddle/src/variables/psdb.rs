//! Paddle's own `psdb`, whose functions mean the same as those of the package.

use sot_core::builtin;
use sot_variables::builtins::steering;

builtin! { BREAKGRAPH = "paddle.jit.sot.psdb:breakgraph" => |cx, args| steering::breakgraph(cx, args) }

builtin! { FALLBACK = "paddle.jit.sot.psdb:fallback" => |cx, args| steering::fallback(cx, args) }

builtin! { IN_SOT = "paddle.jit.sot.psdb:in_sot" => |cx, args| steering::in_sot(cx, args) }

builtin! { ASSERT_TRUE = "paddle.jit.sot.psdb:assert_true" => |cx, args| steering::assert_true(cx, args) }

builtin! { PRINT = "paddle.jit.sot.psdb:print" => |cx, args| steering::print(cx, args) }

builtin! { BREAKPOINT = "paddle.jit.sot.psdb:breakpoint" => |cx, args| steering::breakpoint(cx, args) }
