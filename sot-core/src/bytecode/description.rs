//! What is known of an instruction besides its simulation. A registration declares it once; the code generator, the
//! resume functions and the analyses of loops and handlers read it there.

use once_cell::sync::OnceCell;

use super::local_pair;

/// How many stack items, as a function of the argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Always so many.
    Fixed(u32),
    /// So many, and the argument more.
    PlusArg(u32),
}

impl Count {
    /// The number for an argument.
    #[must_use]
    pub const fn of(self, arg: u32) -> u32 {
        match self {
            Count::Fixed(n) => n,
            Count::PlusArg(n) => n + arg,
        }
    }
}

/// The declared stack effect; `None` for handlers that move the stack themselves.
pub type StackPicture = Option<(Count, Count)>;

/// A number that depends on the instruction's argument.
pub type ByArgument = fn(u32) -> u32;

/// How the code generator runs the instruction outside of the frame that it was compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Native {
    /// As it is; names, constants and cells get their places in the new code.
    Unchanged,
    /// As another instruction with the same argument: a load of a method as the load of an attribute.
    As(&'static str),
    /// As a call with as many positional arguments as the argument says.
    Call,
}

/// What the graph does where it breaks at the instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtBreak {
    /// The instruction runs, and what it leaves is handed over; a branch is asked where it goes.
    Run,
    /// The iterator is advanced, and the frame goes on in the loop or behind it.
    Advance,
    /// `__enter__` is called, and a block begins below its result (3.8 to 3.10).
    EnterWith,
    /// `__exit__` is told of the exception that is handled (3.9 and newer).
    ExitWith,
    /// `__exit__` is called, however the cleanup was entered (3.8).
    CleanUp,
    /// The operands are raised.
    Raise,
    /// The exception on the stack is raised again.
    RaiseAgain,
}

/// What a branch asks its operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BranchTest {
    /// Whether it is true; the branch jumps where the answer is this one.
    Truth(bool),
    /// Whether it is `None`; the branch jumps where the answer is this one.
    IsNone(bool),
    /// Whether the exception is no instance of the class.
    NoMatch,
}

/// A branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// What it asks.
    pub test: BranchTest,
    /// Whether the operand stays on the stack where the branch jumps.
    pub keeps: bool,
}

/// What an instruction does with a local variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads it.
    Load,
    /// Binds it to the item on top of the stack.
    Store,
    /// Unbinds it.
    Delete,
    /// Unbinds it and leaves its value on the stack, or NULL.
    Clear,
}

/// What an instruction does with the local variables that its argument names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locals {
    /// Nothing but reading one, or its argument names none.
    Read,
    /// One.
    One(Access),
    /// Two, four bits each.
    Two(Access, Access),
}

/// How the items on the stack move, where CPython's stack effect does not tell enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Movement {
    /// The stack effect tells: items go, then come.
    Effect,
    /// CPython 3.8 counts what a `finally` body finds on the stack as more than it is: so many items come, or go.
    Counted {
        /// Where the next instruction follows.
        next: i32,
        /// Where the instruction jumps.
        jump: i32,
    },
    /// The result lies where the callable, or the NULL of the call, did.
    Call,
    /// A block with a handler begins (3.8 to 3.10).
    BeginBlock,
    /// The manager becomes `__exit__`, a block, and the result of `__enter__` (3.8 to 3.10).
    EnterWith,
    /// The innermost block ends (3.8 to 3.10).
    EndBlock,
    /// What was handled before is handled again.
    EndHandling,
    /// The iterator gives an item, or goes where the instruction jumps.
    Advance,
    /// The top changes places with the item that the argument counts.
    Swap,
}

/// Where the instruction gives the same whenever it runs, and does nothing that is seen outside of its frame. A
/// generator that the program drops is closed by instructions of that sort alone.
#[derive(Clone, Copy, Debug)]
pub enum Quiet {
    /// Nowhere.
    Never,
    /// Everywhere.
    Always,
    /// For such arguments.
    Argument(fn(u32) -> bool),
    /// Where the operand is a constant.
    OfConstant,
    /// Where the operand is the exception that closes the generator.
    OfException,
    /// Where the name has not been written in the trace.
    GlobalUnwritten,
    /// Where the operand is a module, and the name has not been written in the trace.
    ModuleUnwritten,
}

/// The description of one opcode. Registrations build it by the methods of the same names as its fields.
#[derive(Clone, Copy, Debug)]
pub struct Description {
    /// What the instruction takes from and leaves on the stack; `None` if its handler moves the items itself.
    pub picture: StackPicture,
    /// How many items it looks at: down to the container that it writes to, or to the callable that an error message
    /// names. Without it, the picture's inputs; without a picture, all above the NULL of an unfinished call and above
    /// the last block.
    pub reach: Option<ByArgument>,
    /// How many items it leaves in their place, where CPython's stack effect does not tell.
    pub leaves: Option<ByArgument>,
    /// For which arguments it leaves a callable and the NULL of a call.
    pub leaves_pair: Option<fn(u32) -> bool>,
    /// How it runs outside of its frame.
    pub native: Native,
    /// What the graph does that breaks at it.
    pub at_break: AtBreak,
    /// Which branch it is.
    pub branch: Option<Branch>,
    /// Whether it asks the question of the branch behind it.
    pub asks_for_branch: bool,
    /// Why it cannot run outside of its frame where a NULL is among its operands.
    pub refuses_null: Option<&'static str>,
    /// Whether it changes which exception is handled.
    pub changes_handled: bool,
    /// What it does with the local variables in its argument.
    pub locals: Locals,
    /// How the items on the stack move.
    pub movement: Movement,
    /// Where it is quiet.
    pub quiet: Quiet,
    /// The special methods by which it may ask its operands.
    pub asks: &'static [&'static str],
    /// Whether it uses more of its frame than variables and items: which exception is handled, the cell that `super()`
    /// looks for.
    pub needs_frame: bool,
}

/// What is taken for granted of an opcode that is not described.
static UNKNOWN: Description = Description::of(None);

static DESCRIPTIONS: OnceCell<Vec<&'static Description>> = OnceCell::new();

/// The description of an opcode of the running interpreter: what its registration declares, or, without one or before
/// the tracer has started, what is taken for granted.
#[must_use]
pub fn describe(opcode: u8) -> &'static Description {
    DESCRIPTIONS.get().map_or(&UNKNOWN, |descriptions| descriptions[usize::from(opcode)])
}

/// From now on opcodes are described so; the first call counts.
pub(crate) fn set_descriptions(described: impl Iterator<Item = (u8, &'static Description)>) {
    DESCRIPTIONS.get_or_init(|| {
        let mut all = vec![&UNKNOWN; 256];
        described.for_each(|(opcode, description)| all[usize::from(opcode)] = description);
        all
    });
}

impl Description {
    /// That of an opcode with a stack picture.
    #[must_use]
    pub const fn of(picture: StackPicture) -> Self {
        Description {
            picture,
            reach: None,
            leaves: None,
            leaves_pair: None,
            native: Native::Unchanged,
            at_break: AtBreak::Run,
            branch: None,
            asks_for_branch: false,
            refuses_null: None,
            changes_handled: false,
            locals: Locals::Read,
            movement: Movement::Effect,
            quiet: Quiet::Never,
            asks: &[],
            needs_frame: false,
        }
    }

    /// See [`Description::reach`](#structfield.reach).
    #[must_use]
    pub const fn reach(self, items: ByArgument) -> Self {
        Description { reach: Some(items), ..self }
    }

    /// See [`Description::leaves`](#structfield.leaves).
    #[must_use]
    pub const fn leaves(self, items: ByArgument) -> Self {
        Description { leaves: Some(items), ..self }
    }

    /// See [`Description::leaves_pair`](#structfield.leaves_pair).
    #[must_use]
    pub const fn leaves_pair(self, when: fn(u32) -> bool) -> Self {
        Description { leaves_pair: Some(when), ..self }
    }

    /// See [`Description::native`](#structfield.native).
    #[must_use]
    pub const fn native(self, native: Native) -> Self {
        Description { native, ..self }
    }

    /// See [`Description::at_break`](#structfield.at_break).
    #[must_use]
    pub const fn at_break(self, at_break: AtBreak) -> Self {
        Description { at_break, ..self }
    }

    /// A branch that takes its operand from the stack.
    #[must_use]
    pub const fn branch(self, test: BranchTest) -> Self {
        Description { branch: Some(Branch { test, keeps: false }), ..self }
    }

    /// A branch whose operand stays on the stack where it jumps.
    #[must_use]
    pub const fn branch_or_pop(self, test: BranchTest) -> Self {
        Description { branch: Some(Branch { test, keeps: true }), ..self }
    }

    /// See [`Description::asks_for_branch`](#structfield.asks_for_branch).
    #[must_use]
    pub const fn asks_for_branch(self) -> Self {
        Description { asks_for_branch: true, ..self }
    }

    /// See [`Description::refuses_null`](#structfield.refuses_null).
    #[must_use]
    pub const fn refuses_null(self, why: &'static str) -> Self {
        Description { refuses_null: Some(why), ..self }
    }

    /// See [`Description::changes_handled`](#structfield.changes_handled).
    #[must_use]
    pub const fn changes_handled(self) -> Self {
        Description { changes_handled: true, ..self }
    }

    /// What the instruction does with the local variable in its argument.
    #[must_use]
    pub const fn local(self, access: Access) -> Self {
        Description { locals: Locals::One(access), ..self }
    }

    /// What the instruction does with the two local variables in its argument.
    #[must_use]
    pub const fn two_locals(self, first: Access, second: Access) -> Self {
        Description { locals: Locals::Two(first, second), ..self }
    }

    /// See [`Description::movement`](#structfield.movement).
    #[must_use]
    pub const fn moves(self, movement: Movement) -> Self {
        Description { movement, ..self }
    }

    /// See [`Description::quiet`](#structfield.quiet).
    #[must_use]
    pub const fn quiet(self, quiet: Quiet) -> Self {
        Description { quiet, ..self }
    }

    /// See [`Description::asks`](#structfield.asks).
    #[must_use]
    pub const fn asks(self, methods: &'static [&'static str]) -> Self {
        Description { asks: methods, ..self }
    }

    /// See [`Description::needs_frame`](#structfield.needs_frame).
    #[must_use]
    pub const fn needs_frame(self) -> Self {
        Description { needs_frame: true, ..self }
    }

    /// How many items the instruction looks at, if that is declared.
    #[must_use]
    pub fn reached(&self, arg: u32) -> Option<u32> {
        let inputs = |(inputs, _): (Count, Count)| inputs.of(arg);
        self.reach.map(|items| items(arg)).or_else(|| self.picture.map(inputs))
    }

    /// Whether the instruction leaves a callable and the NULL of a call.
    #[must_use]
    pub fn is_pair(&self, arg: u32) -> bool {
        self.leaves_pair.is_some_and(|when| when(arg))
    }

    /// Whether the instruction is a branch on the truth of a value, which goes.
    #[must_use]
    pub const fn tests_truth(&self) -> bool {
        matches!(self.branch, Some(Branch { test: BranchTest::Truth(_), keeps: false }))
    }

    /// Whether the instruction is a branch that takes nothing but a bool, where the interpreter has such branches.
    #[must_use]
    pub const fn needs_bool(&self) -> bool {
        !matches!(self.branch, Some(Branch { test: BranchTest::IsNone(_), .. }))
    }

    /// What the instruction does with the locals in its argument, and with which.
    pub fn accesses(&self, arg: u32) -> impl Iterator<Item = (Access, u32)> {
        let [one, other] = local_pair(arg);
        let (first, second) = match self.locals {
            Locals::Read => (None, None),
            Locals::One(access) => (Some((access, arg)), None),
            Locals::Two(first, second) => (Some((first, one)), Some((second, other))),
        };
        first.into_iter().chain(second)
    }

    /// Whether the instruction binds a local variable.
    #[must_use]
    pub fn binds(&self) -> bool {
        self.accesses(0).any(|(access, _)| access == Access::Store)
    }
}
