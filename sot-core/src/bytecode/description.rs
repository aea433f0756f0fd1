//! Descriptions: facts about an opcode besides its simulation. The opcode's registration declares them once. The code
//! generator, resume functions, and the analyses of loops and handlers read them here.

use once_cell::sync::OnceCell;

use super::local_pair;

/// A number of stack items, as a function of the operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// A fixed number.
    Fixed(u32),
    /// This number plus the operand.
    PlusArg(u32),
}

impl Count {
    /// The number of items for an operand.
    #[must_use]
    pub const fn of(self, arg: u32) -> u32 {
        match self {
            Count::Fixed(n) => n,
            Count::PlusArg(n) => n + arg,
        }
    }
}

/// Items taken from and left on the stack; `None` for handlers that move the items themselves.
pub type StackPicture = Option<(Count, Count)>;

/// A number that depends on the instruction's operand.
pub type ByArgument = fn(u32) -> u32;

/// How the code generator runs the instruction outside its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Native {
    /// Unchanged; names, constants and cells get their places in the new code.
    Unchanged,
    /// As another instruction with the same operand. A load of a method, for example, runs as the load of an
    /// attribute.
    As(&'static str),
    /// As a call with as many positional arguments as the operand says.
    Call,
}

/// The way in which new code runs an instruction at which the graph breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtBreak {
    /// Runs the instruction and hands over the items it leaves; for a branch, hands over on each side.
    Run,
    /// Advances the iterator; the frame continues in the loop or behind it.
    Advance,
    /// Calls `__enter__`; a block begins below its result (3.8 to 3.10).
    EnterWith,
    /// Calls `__exit__` with the handled exception (3.9 and newer).
    ExitWith,
    /// Calls `__exit__`, in whichever way the cleanup was entered (3.8).
    CleanUp,
    /// Raises the operands.
    Raise,
    /// Raises the exception on the stack again.
    RaiseAgain,
}

/// The condition of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BranchTest {
    /// Jumps if the operand's truth is this.
    Truth(bool),
    /// Jumps if "the operand is `None`" has this truth.
    IsNone(bool),
    /// Jumps if the exception is no instance of the class.
    NoMatch,
}

/// A conditional jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The condition.
    pub test: BranchTest,
    /// True if the operand stays on the stack when the branch jumps.
    pub keeps: bool,
}

/// How an instruction accesses a local variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads the variable.
    Load,
    /// Binds the variable to the top of the stack.
    Store,
    /// Unbinds the variable.
    Delete,
    /// Unbinds the variable and pushes its value, or NULL.
    Clear,
}

/// How an instruction accesses the local variables that its operand names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locals {
    /// Only reads one, or its operand names none.
    Read,
    /// Accesses one variable.
    One(Access),
    /// Accesses two variables, with four bits of the operand each.
    Two(Access, Access),
}

/// How stack items move, where CPython's stack effect is not precise enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Movement {
    /// As the stack effect says: items are popped, then pushed.
    Effect,
    /// CPython 3.8 counts more items for a `finally` body than there are. These are the real numbers of items pushed
    /// (or popped, if negative).
    Counted {
        /// If the next instruction follows.
        next: i32,
        /// If the instruction jumps.
        jump: i32,
    },
    /// A call: the result takes the place of the callable, or of the NULL of the call.
    Call,
    /// A block with a handler begins (3.8 to 3.10).
    BeginBlock,
    /// The context manager is replaced by `__exit__`, a block, and the result of `__enter__` (3.8 to 3.10).
    EnterWith,
    /// The innermost block ends (3.8 to 3.10).
    EndBlock,
    /// The exception handled before is handled again.
    EndHandling,
    /// The iterator yields an item, or is popped if the instruction jumps.
    Advance,
    /// The top of the stack and the item that the operand counts swap places.
    Swap,
}

/// Where the instruction is quiet: it always gives the same result, and does nothing that is observable outside its
/// frame. If only quiet instructions run when a dropped generator is closed, the closing can be left out.
#[derive(Clone, Copy, Debug)]
pub enum Quiet {
    /// Nowhere.
    Never,
    /// Everywhere.
    Always,
    /// For operands with this property.
    Argument(fn(u32) -> bool),
    /// If its stack operand is a constant.
    OfConstant,
    /// If its stack operand is the exception that closes the generator.
    OfException,
    /// If the global name has not been written in the trace.
    GlobalUnwritten,
    /// If its stack operand is a module, and the name has not been written in the trace.
    ModuleUnwritten,
}

/// The description of one opcode. Registrations build it by methods with the names of its fields.
#[derive(Clone, Copy, Debug)]
pub struct Description {
    /// Items taken from and left on the stack; `None` if the handler moves the items itself.
    pub picture: StackPicture,
    /// Number of items that it looks at, down to the container it writes to, or the callable that an error message
    /// names. By default, the picture's inputs; without a picture, all items above the NULL of an unfinished call and
    /// above the last block.
    pub reach: Option<ByArgument>,
    /// Number of items that it leaves in their place, where CPython's stack effect does not tell.
    pub leaves: Option<ByArgument>,
    /// The operands for which it leaves a callable and the NULL of a call.
    pub leaves_pair: Option<fn(u32) -> bool>,
    /// How it runs outside its frame.
    pub native: Native,
    /// The way in which new code runs the instruction if the graph breaks at it.
    pub at_break: AtBreak,
    /// The branch it is, if any.
    pub branch: Option<Branch>,
    /// True if it computes the condition of the branch behind it.
    pub asks_for_branch: bool,
    /// Why it cannot run outside its frame if a NULL is among its operands; `None` if it can.
    pub refuses_null: Option<&'static str>,
    /// True if it changes the handled exception.
    pub changes_handled: bool,
    /// How it accesses the local variables in its operand.
    pub locals: Locals,
    /// How the stack items move.
    pub movement: Movement,
    /// Where the instruction is quiet.
    pub quiet: Quiet,
    /// Special methods of its operands that it may call.
    pub asks: &'static [&'static str],
    /// True if it uses more of its frame than variables and stack items: the handled exception, or the cell that
    /// `super()` looks for.
    pub needs_frame: bool,
}

/// Description of an opcode without registration.
static UNKNOWN: Description = Description::of(None);

static DESCRIPTIONS: OnceCell<Vec<&'static Description>> = OnceCell::new();

/// Returns the description of an opcode of the running interpreter: the one its registration declares. A default is
/// returned for an opcode without registration, and before the tracer has started.
#[must_use]
pub fn describe(opcode: u8) -> &'static Description {
    DESCRIPTIONS.get().map_or(&UNKNOWN, |descriptions| descriptions[usize::from(opcode)])
}

/// Sets the descriptions. Only the first call has an effect.
pub(crate) fn set_descriptions(described: impl Iterator<Item = (u8, &'static Description)>) {
    DESCRIPTIONS.get_or_init(|| {
        let mut all = vec![&UNKNOWN; 256];
        described.for_each(|(opcode, description)| all[usize::from(opcode)] = description);
        all
    });
}

impl Description {
    /// A description with this stack picture, and defaults for the rest.
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

    /// Marks a branch that pops its operand.
    #[must_use]
    pub const fn branch(self, test: BranchTest) -> Self {
        Description { branch: Some(Branch { test, keeps: false }), ..self }
    }

    /// Marks a branch whose operand stays on the stack if it jumps.
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

    /// Declares the access to the local variable in the operand.
    #[must_use]
    pub const fn local(self, access: Access) -> Self {
        Description { locals: Locals::One(access), ..self }
    }

    /// Declares the accesses to the two local variables in the operand.
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

    /// Number of items that the instruction looks at, if it is declared.
    #[must_use]
    pub fn reached(&self, arg: u32) -> Option<u32> {
        let inputs = |(inputs, _): (Count, Count)| inputs.of(arg);
        self.reach.map(|items| items(arg)).or_else(|| self.picture.map(inputs))
    }

    /// True if the instruction leaves a callable and the NULL of a call.
    #[must_use]
    pub fn is_pair(&self, arg: u32) -> bool {
        self.leaves_pair.is_some_and(|when| when(arg))
    }

    /// True if the instruction is a branch on the truth of a value, which it pops.
    #[must_use]
    pub const fn tests_truth(&self) -> bool {
        matches!(self.branch, Some(Branch { test: BranchTest::Truth(_), keeps: false }))
    }

    /// True if the branch takes only a bool in interpreters that have such branches.
    #[must_use]
    pub const fn needs_bool(&self) -> bool {
        !matches!(self.branch, Some(Branch { test: BranchTest::IsNone(_), .. }))
    }

    /// The accesses of the instruction to the locals in its operand, with their slots.
    pub fn accesses(&self, arg: u32) -> impl Iterator<Item = (Access, u32)> {
        let [one, other] = local_pair(arg);
        let (first, second) = match self.locals {
            Locals::Read => (None, None),
            Locals::One(access) => (Some((access, arg)), None),
            Locals::Two(first, second) => (Some((first, one)), Some((second, other))),
        };
        first.into_iter().chain(second)
    }

    /// True if the instruction binds a local variable.
    #[must_use]
    pub fn binds(&self) -> bool {
        self.accesses(0).any(|(access, _)| access == Access::Store)
    }
}
