//! `sot.psdb`, and Paddle's own `psdb`, which means the same.

use sot_core::builtin;
use sot_variables::builtins::steering;

builtin! { BREAKGRAPH = "sot.psdb:breakgraph" => |cx, args| steering::breakgraph(cx, args) }

builtin! { FALLBACK = "sot.psdb:fallback" => |cx, args| steering::fallback(cx, args) }

builtin! { IN_SOT = "sot.psdb:in_sot" => |cx, args| steering::in_sot(cx, args) }

builtin! { IS_COMPILING = "sot._compiling:is_compiling" => |cx, args| steering::is_compiling(cx, args) }

builtin! { ASSERT_TRUE = "sot.psdb:assert_true" => |cx, args| steering::assert_true(cx, args) }

builtin! { PRINT = "sot.psdb:print" => |cx, args| steering::print(cx, args) }

builtin! { BREAKPOINT = "sot.psdb:breakpoint" => |cx, args| steering::breakpoint(cx, args) }

builtin! { PADDLE_BREAKGRAPH = "paddle.jit.sot.psdb:breakgraph" => |cx, args| steering::breakgraph(cx, args) }

builtin! { PADDLE_FALLBACK = "paddle.jit.sot.psdb:fallback" => |cx, args| steering::fallback(cx, args) }

builtin! { PADDLE_IN_SOT = "paddle.jit.sot.psdb:in_sot" => |cx, args| steering::in_sot(cx, args) }

builtin! { PADDLE_ASSERT_TRUE = "paddle.jit.sot.psdb:assert_true" => |cx, args| steering::assert_true(cx, args) }

builtin! { PADDLE_PRINT = "paddle.jit.sot.psdb:print" => |cx, args| steering::print(cx, args) }

builtin! { PADDLE_BREAKPOINT = "paddle.jit.sot.psdb:breakpoint" => |cx, args| steering::breakpoint(cx, args) }
