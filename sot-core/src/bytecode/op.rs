//! The opcodes that generated code is written in, by CPython's names. The names are resolved once for the running
//! interpreter, which may lack some of them.

/// Declares the enumeration, the list of its variants, and their names.
macro_rules! opcodes {
    ($($name:ident)*) => {
        /// An opcode by CPython's name. Each version has only some of them.
        #[allow(non_camel_case_types, clippy::upper_case_acronyms, missing_docs, reason = "these are CPython's own names")]
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Op { $($name),* }

        impl Op {
            /// All opcodes of the enumeration, in its order.
            pub(super) const ALL: &'static [Op] = &[$(Op::$name),*];

            /// Returns CPython's name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Op::$name => stringify!($name)),* }
            }
        }
    };
}

opcodes! {
    BEGIN_FINALLY
    BINARY_ADD
    BINARY_AND
    BINARY_FLOOR_DIVIDE
    BINARY_LSHIFT
    BINARY_MATRIX_MULTIPLY
    BINARY_MODULO
    BINARY_MULTIPLY
    BINARY_OP
    BINARY_OR
    BINARY_POWER
    BINARY_RSHIFT
    BINARY_SUBSCR
    BINARY_SUBTRACT
    BINARY_TRUE_DIVIDE
    BINARY_XOR
    BUILD_LIST
    BUILD_MAP
    BUILD_SET
    BUILD_SLICE
    BUILD_TUPLE
    CALL
    CALL_FINALLY
    CALL_FUNCTION
    CALL_FUNCTION_EX
    CALL_FUNCTION_KW
    CALL_KW
    CHECK_EXC_MATCH
    CLEANUP_THROW
    COMPARE_OP
    COPY
    COPY_FREE_VARS
    DELETE_ATTR
    DELETE_DEREF
    DELETE_FAST
    DELETE_GLOBAL
    DELETE_NAME
    DELETE_SUBSCR
    DUP_TOP
    DUP_TOP_TWO
    END_FINALLY
    FOR_ITER
    GEN_START
    IS_OP
    JUMP_ABSOLUTE
    JUMP_BACKWARD_NO_INTERRUPT
    JUMP_FORWARD
    JUMP_IF_NOT_EXC_MATCH
    KW_NAMES
    LOAD_ATTR
    LOAD_CLOSURE
    LOAD_CONST
    LOAD_DEREF
    LOAD_FAST
    LOAD_GLOBAL
    LOAD_METHOD
    MAKE_CELL
    NOP
    POP_BLOCK
    POP_EXCEPT
    POP_JUMP_FORWARD_IF_FALSE
    POP_JUMP_FORWARD_IF_TRUE
    POP_JUMP_IF_FALSE
    POP_JUMP_IF_TRUE
    POP_TOP
    PRECALL
    PUSH_EXC_INFO
    PUSH_NULL
    RAISE_VARARGS
    RERAISE
    RESUME
    RETURN_GENERATOR
    RETURN_VALUE
    ROT_FOUR
    ROT_THREE
    ROT_TWO
    SETUP_FINALLY
    SETUP_WITH
    STORE_ATTR
    STORE_DEREF
    STORE_FAST
    STORE_GLOBAL
    STORE_NAME
    STORE_SUBSCR
    SWAP
    TO_BOOL
    UNARY_NOT
    UNPACK_SEQUENCE
    YIELD_FROM
    YIELD_VALUE
}
