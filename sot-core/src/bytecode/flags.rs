//! `co_flags`: the bits of a code object's flags that the tracer reads or writes.

/// `CO_OPTIMIZED`: locals are in slots.
pub const OPTIMIZED: u32 = 0x1;
/// `CO_OPTIMIZED | CO_NEWLOCALS`, which the code of a module or class does not have.
pub const FUNCTION: u32 = OPTIMIZED | 0x2;
/// `CO_VARARGS`
pub const VARARGS: u32 = 0x4;
/// `CO_VARKEYWORDS`
pub const VARKEYWORDS: u32 = 0x8;
/// The code takes `*args` or `**kwargs`.
pub const STARRED: u32 = VARARGS | VARKEYWORDS;
/// `CO_NESTED`, which old flags of `__future__` share.
pub const NESTED: u32 = 0x10;
/// `CO_GENERATOR`
pub const GENERATOR: u32 = 0x20;
/// `CO_COROUTINE | CO_ASYNC_GENERATOR`
pub const ASYNCHRONOUS: u32 = 0x80 | 0x200;
/// The frame can be suspended: a generator, coroutine or asynchronous generator.
pub const SUSPENDS: u32 = GENERATOR | ASYNCHRONOUS;
