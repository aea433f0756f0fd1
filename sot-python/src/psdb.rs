//! Registers what the functions of the package's `psdb` mean to a trace.

use sot_core::builtin;
use sot_variables::builtins::steering;

builtin! { BREAKGRAPH = ".psdb:breakgraph" => |cx, args| steering::breakgraph(cx, args) }

builtin! { FALLBACK = ".psdb:fallback" => |cx, args| steering::fallback(cx, args) }

builtin! { IN_SOT = ".psdb:in_sot" => |cx, args| steering::in_sot(cx, args) }

builtin! { IS_COMPILING = "._compiling:is_compiling" => |cx, args| steering::is_compiling(cx, args) }

builtin! { ASSERT_TRUE = ".psdb:assert_true" => |cx, args| steering::assert_true(cx, args) }

builtin! { PRINT = ".psdb:print" => |cx, args| steering::print(cx, args) }

builtin! { BREAKPOINT = ".psdb:breakpoint" => |cx, args| steering::breakpoint(cx, args) }
