//! What programs are made of. Names have a type for life, so that most operations succeed; those that fail raise, which is
//! part of the game. Loops end: their iterables are short, `while` counts, and a loop over a list leaves when it grew.

use super::tree::{Kind, Node};
use Kind::{Any, Bool, Clause, Dict, Int, Iterable, List, Object, Set, Statement, Str, Tensor};

/// Constructs that are not generated for now, and why.
pub(crate) const EXCLUDED: &[(&str, &str)] = &[(
    "unbound variables",
    "behind a break, a cell variable without a value is a free variable without a value, which has an error of its own",
)];

/// Classes and functions every program may use.
const PRELUDE: &str = include_str!("prelude.py");

/// The end of a line whose block is not cut, as it may never end then.
const WHOLE: &str = "# whole";

/// The lines of a block of Python as statements, which can be cut: a line and the deeper lines below it are one.
fn statements(lines: &[&str], margin: usize) -> Vec<Node> {
    let depth = |line: &str| line.len() - line.trim_start().len();
    let mut found = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let decorated = usize::from(lines[at].trim_start().starts_with('@'));
        let body = at + decorated + 1;
        let end = (body..lines.len()).find(|&i| depth(lines[i]) <= margin).unwrap_or(lines.len());
        let mut text: Vec<_> = lines[at..body].iter().map(|line| line.trim()).collect();
        let mut parts = Vec::new();
        if text[0].ends_with(WHOLE) {
            text = lines[at..end].iter().map(|line| &line[margin..]).collect();
        } else if end > body {
            text.push("    $");
            parts.push(Node::block(statements(&lines[body..end], depth(lines[body]))));
        }
        found.push(Node::new(Statement, text.join("\n"), parts));
        at = end;
    }
    found
}

/// The module that a number stands for.
pub(crate) fn module(seed: u64) -> Node {
    let mut generator = Generator { state: seed, names: 0, fuel: 0 };
    let lines: Vec<_> = PRELUDE.lines().filter(|line| !line.is_empty()).collect();
    let mut statements = statements(&lines, 0);
    let mut helpers = Vec::new();
    for _ in 0..generator.below(4) {
        generator.fuel = 8;
        let scope = Scope { helpers: helpers.clone(), ..Scope::default() };
        let (definition, helper) = generator.function(&scope, "h");
        statements.push(definition);
        helpers.push(helper);
    }
    generator.fuel = generator.between(4, 30) as i32;
    statements.push(generator.main(helpers));
    statements.push(generator.makers());
    Node::block(statements)
}

/// A function, generator function or lambda that can be called.
#[derive(Debug, Clone)]
struct Callable {
    name: String,
    returns: Kind,
    first: Kind,
    /// Parameters with a default.
    optional: Option<String>,
    keyword: Option<String>,
    rest: bool,
    keywords: bool,
    generator: bool,
}

/// What can be named where.
#[derive(Debug, Clone, Default)]
struct Scope {
    readable: Vec<(Kind, String)>,
    writable: Vec<(Kind, String)>,
    helpers: Vec<Callable>,
    depth: usize,
    in_loop: bool,
    in_handler: bool,
    in_try: bool,
    in_generator: bool,
    /// Nothing may be assigned inside an expression here.
    pure_names: bool,
    returns: Option<Kind>,
    expression_depth: usize,
}

impl Scope {
    fn names(&self, kind: Kind) -> impl Iterator<Item = &String> {
        self.readable.iter().filter(move |(of, _)| *of == kind).map(|(_, name)| name)
    }

    fn deeper(&self) -> Scope {
        Scope { depth: self.depth + 1, expression_depth: 0, ..self.clone() }
    }

    fn expression(&self) -> Scope {
        Scope { expression_depth: self.expression_depth + 1, ..self.clone() }
    }

    /// How many of a hundred statements that often raise are welcome.
    fn daring(&self) -> usize {
        if self.in_try { 70 } else { 12 }
    }

    fn with(&self, kind: Kind, name: &str) -> Scope {
        let mut inner = self.clone();
        inner.readable.push((kind, name.to_owned()));
        inner
    }
}

struct Generator {
    state: u64,
    names: usize,
    /// Statements that may still be made.
    fuel: i32,
}

/// A template with the kinds of its parts: `T` a tensor, `I` an int and so on, between `<` and `>`.
type Template = &'static str;

impl Generator {
    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low)
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    fn fresh(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    /// Fills a template: `<i>` an int expression, `<I>` a name of an int that may be assigned, and so for the other letters;
    /// `<n>` a small literal, `<f>` a name of an int to read.
    fn fill(&mut self, kind: Kind, template: &str, scope: &Scope) -> Node {
        let mut inner = scope.expression();
        // What a comprehension runs over, and a lambda's body, assign no names.
        inner.pure_names |= template.contains(" for ") || template.contains("lambda");
        let (mut text, mut parts) = (String::new(), Vec::new());
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('<') {
            text.push_str(before);
            let Some((letter, after)) = after.split_once('>').filter(|(letter, _)| letter.len() == 1) else {
                text.push('<');
                rest = after;
                continue;
            };
            rest = after;
            if letter == "n" {
                text.push_str(&self.below(5).to_string());
                continue;
            }
            if letter == "f" {
                let names: Vec<_> = scope.names(Int).cloned().collect();
                text.push_str(&if names.is_empty() { "7".to_owned() } else { self.pick(&names).clone() });
                continue;
            }
            let of = kind_of(letter);
            if letter == letter.to_uppercase() {
                text.push_str(&self.target(of, scope));
            } else {
                text.push('$');
                parts.push(self.expression(of, &inner));
            }
        }
        text.push_str(rest);
        Node::new(kind, text, parts)
    }

    /// A name that may be assigned.
    fn target(&mut self, kind: Kind, scope: &Scope) -> String {
        let names: Vec<_> = scope.writable.iter().filter(|(of, _)| *of == kind).collect();
        if names.is_empty() {
            self.fresh("_")
        } else {
            self.pick(&names).1.clone()
        }
    }

    fn expression(&mut self, kind: Kind, scope: &Scope) -> Node {
        if kind == Any {
            let of = *self.pick(&[Int, Int, Tensor, Tensor, Str, List, Dict, Object, Set, Bool]);
            return Node::new(Any, "$", vec![self.expression(of, scope)]);
        }
        let shallow = scope.expression_depth > 2 || self.chance(45);
        let names: Vec<_> = scope.names(kind).cloned().collect();
        if shallow && !names.is_empty() && (kind != Int || self.chance(70)) {
            return Node::leaf(kind, self.pick(&names).clone());
        }
        if shallow || scope.expression_depth > 3 {
            return Node::leaf(kind, (*self.pick(literals(kind))).to_owned());
        }
        if self.chance(12) {
            if let Some(call) = self.call(kind, scope) {
                return call;
            }
        }
        if matches!(kind, List | Iterable) && self.chance(25) {
            return self.comprehension(kind, scope);
        }
        if self.chance(6) && !scope.pure_names && matches!(kind, Int | Tensor | List) {
            let name = self.target(kind, scope);
            return Node::new(kind, format!("({name} := $)"), vec![self.expression(kind, &scope.expression())]);
        }
        if self.chance(5) && matches!(kind, Int | Tensor) {
            let name = self.fresh("z");
            let inner = Scope { pure_names: true, ..scope.expression().with(kind, &name) };
            let (body, given) = (self.expression(kind, &inner), self.expression(kind, &scope.expression()));
            return Node::new(kind, format!("(lambda {name}: $)($)"), vec![body, given]);
        }
        let template = *self.pick(expressions(kind));
        let wanted = if breaks(template) { 40 } else { 100 } * if raises(template) { scope.daring() } else { 100 } / 100;
        if !self.chance(wanted) {
            return self.expression(kind, &scope.expression());
        }
        self.fill(kind, template, scope)
    }

    fn comprehension(&mut self, kind: Kind, scope: &Scope) -> Node {
        let name = self.fresh("k");
        let over = self.expression(Iterable, &Scope { pure_names: true, ..scope.expression() });
        let inner = scope.expression().with(Int, &name);
        let item = self.expression(Int, &inner);
        let (open, close) = if kind == List { ('[', ']') } else { ('(', ')') };
        if self.chance(40) {
            let condition = self.expression(Bool, &inner);
            return Node::new(kind, format!("{open}$ for {name} in $ if $ {close}"), vec![item, over, condition]);
        }
        Node::new(kind, format!("{open}$ for {name} in ${close}"), vec![item, over])
    }

    /// A call of something the scope knows that gives the kind asked for.
    fn call(&mut self, kind: Kind, scope: &Scope) -> Option<Node> {
        let suitable: Vec<_> = scope
            .helpers
            .iter()
            .filter(|callable| if kind == Iterable { callable.generator } else { !callable.generator && callable.returns == kind })
            .cloned()
            .collect();
        if suitable.is_empty() {
            return None;
        }
        let callable = self.pick(&suitable).clone();
        let inner = scope.expression();
        let mut args = vec![self.expression(callable.first, &inner)];
        let mut text = "$".to_owned();
        let mut named = false;
        if let Some(optional) = &callable.optional {
            if self.chance(60) {
                args.push(self.expression(Int, &inner));
                named = self.chance(40);
                text.push_str(&if named { format!(", {optional}=$") } else { ", $".to_owned() });
            }
            if callable.rest && args.len() == 2 && !named && self.chance(50) {
                let starred = self.chance(50);
                args.push(self.expression(if starred { List } else { Int }, &inner));
                text.push_str(if starred { ", *$" } else { ", $" });
            }
        }
        if let Some(keyword) = &callable.keyword {
            if self.chance(50) {
                args.push(self.expression(Int, &inner));
                text.push_str(&if self.chance(30) { format!(", **{{\"{keyword}\": $}}") } else { format!(", {keyword}=$") });
            }
        }
        if callable.keywords && self.chance(50) {
            args.push(self.expression(Int, &inner));
            text.push_str(", other=$");
        }
        Some(Node::new(kind, format!("{}({text})", callable.name), args))
    }

    /// A function of its own or inside another, and how it is called.
    fn function(&mut self, around: &Scope, prefix: &str) -> (Node, Callable) {
        let name = self.fresh(prefix);
        let generator = self.chance(25);
        let first = *self.pick(&[Int, Tensor, Tensor, List]);
        let callable = Callable {
            returns: *self.pick(&[Int, Tensor, List]),
            first,
            optional: self.chance(50).then(|| self.fresh("o")),
            keyword: self.chance(25).then(|| self.fresh("y")),
            rest: self.chance(30),
            keywords: self.chance(20),
            generator,
            name,
        };
        let mut scope = Scope {
            writable: Vec::new(),
            in_loop: false,
            in_handler: false,
            in_try: false,
            in_generator: generator,
            returns: (!generator).then_some(callable.returns),
            ..around.deeper()
        };
        let parameter = self.fresh("q");
        let mut defaults = Vec::new();
        let mut parameters = parameter.clone();
        declare(&mut scope, first, &parameter);
        if let Some(optional) = &callable.optional {
            parameters.push_str(&format!(", {optional}=$"));
            // A module that fails to load is no program.
            let outermost = around.depth == 0 && prefix == "h";
            defaults.push(if outermost { Node::leaf(Int, "2") } else { self.expression(Int, &around.expression()) });
            declare(&mut scope, Int, optional);
        }
        if callable.rest {
            let rest = self.fresh("r");
            parameters.push_str(&format!(", *{rest}"));
            scope.readable.push((Iterable, rest));
        } else if callable.keyword.is_some() {
            parameters.push_str(", *");
        }
        if let Some(keyword) = &callable.keyword {
            parameters.push_str(&format!(", {keyword}=<n>").replace("<n>", &self.below(5).to_string()));
            declare(&mut scope, Int, keyword);
        }
        if callable.keywords {
            let keywords = self.fresh("kw");
            parameters.push_str(&format!(", **{keywords}"));
            scope.readable.push((Dict, keywords));
        }
        let mut statements = Vec::new();
        let outer: Vec<_> = around.writable.iter().filter(|(_, name)| name != "G").cloned().collect();
        for (kind, name) in outer {
            if self.chance(25) {
                statements.push(Node::leaf(Statement, format!("nonlocal {name}")));
                scope.writable.push((kind, name));
            }
        }
        self.locals(&mut scope, &mut statements, 35);
        self.statements(&mut scope, &mut statements, 4);
        if generator {
            statements.push(self.fill(Statement, "yield <i>", &scope));
        } else {
            let value = self.expression(callable.returns, &scope);
            statements.push(Node::new(Statement, "return $", vec![value]));
        }
        let body = Node::block(statements);
        defaults.push(body);
        let definition = Node::new(Statement, format!("def {}({parameters}):\n    $", callable.name), defaults);
        (definition, callable)
    }

    /// Local variables with their first values, and perhaps the global.
    fn locals(&mut self, scope: &mut Scope, statements: &mut Vec<Node>, percent: usize) {
        if self.chance(50) {
            statements.push(Node::leaf(Statement, "global G"));
            scope.writable.push((Int, "G".to_owned()));
        }
        for kind in [Int, Int, Tensor, List, List, Dict, Set, Str, Object] {
            if !self.chance(percent) || (kind == Tensor && scope.names(Tensor).next().is_none()) {
                continue;
            }
            let name = self.fresh(prefix(kind));
            let inner = Scope { pure_names: true, expression_depth: 2, ..scope.clone() };
            let value = self.expression(kind, &inner);
            statements.push(Node::new(Statement, format!("{name} = $"), vec![value]));
            declare(scope, kind, &name);
        }
    }

    fn main(&mut self, helpers: Vec<Callable>) -> Node {
        let mut scope = Scope { helpers, returns: Some(Any), ..Scope::default() };
        for (kind, name) in [(Tensor, "x"), (Int, "n"), (List, "a"), (Dict, "d"), (Object, "p")] {
            declare(&mut scope, kind, name);
        }
        scope.readable.extend([(Int, "G".to_owned()), (List, "GL".to_owned())]);
        let mut statements = Vec::new();
        self.locals(&mut scope, &mut statements, 70);
        self.statements(&mut scope, &mut statements, 12);
        let results = scope.writable.iter().map(|(_, name)| Node::leaf(Any, name.clone())).collect();
        statements.push(Node::new(Statement, "return [$]", vec![Node::items(results)]));
        Node::new(Statement, "def f(x, n, a, d, p):\n    $", vec![Node::block(statements)])
    }

    /// Arguments of the calls: the same ones twice, then others.
    fn makers(&mut self) -> Node {
        let first = self.maker();
        let mut makers = vec![first.clone(), first];
        for _ in 0..3 {
            makers.push(self.maker());
        }
        Node::new(Statement, "makers = [$]", vec![Node::items(makers)])
    }

    fn maker(&mut self) -> Node {
        let tensor = self.pick(&["toy.arange(2)", "toy.arange(2)", "toy.arange(3)", "toy.arange(2) - 3", "toy.ones([2])"]);
        let number = self.pick(&["1", "1", "2", "0", "-1", "3", "True", "7", "2.5"]);
        let list = self.pick(&["[1, 2]", "[1, 2]", "[]", "[3]", "[2, 0, 1]", "[0, 5, -1, 4]"]);
        let dict = self.pick(&["{\"a\": 1}", "{\"a\": 1}", "{}", "{\"b\": 2, \"a\": 3}"]);
        let object = self.pick(&["Point(2)", "Point(2)", "Point(3)", "Child(1, 2)", "Point(0)"]);
        Node::leaf(Any, format!("lambda: ({tensor}, {number}, {list}, {dict}, {object})"))
    }

    fn block(&mut self, scope: &Scope, most: usize) -> Node {
        let mut statements = Vec::new();
        self.statements(&mut scope.deeper(), &mut statements, most);
        Node::block(statements)
    }

    fn statements(&mut self, scope: &mut Scope, statements: &mut Vec<Node>, most: usize) {
        for _ in 0..self.between(1, most + 1) {
            if self.fuel <= 0 {
                break;
            }
            self.fuel -= 1;
            let statement = self.statement(scope);
            statements.push(statement);
        }
    }

    fn statement(&mut self, scope: &mut Scope) -> Node {
        let compound = scope.depth < 4 && self.fuel > 0;
        match self.below(100) {
            0..=8 if compound => self.branch(scope),
            9..=17 if compound => self.for_loop(scope),
            18..=21 if compound => self.while_loop(scope),
            22..=30 if compound => self.try_statement(scope),
            31..=35 if compound => self.with_statement(scope),
            36..=39 if compound && scope.depth < 3 => {
                let (definition, callable) = self.function(scope, "g");
                scope.helpers.push(callable);
                definition
            }
            40..=44 if scope.in_try || scope.in_loop || self.chance(30) => self.jump(scope),
            45..=49 => {
                let template = *self.pick(BREAKING);
                self.fill(Statement, template, scope)
            }
            50..=52 if scope.in_generator => {
                let template = *self.pick(&["yield <i>", "yield <i>", "LOG.append((yield <i>))", "yield from <k>"]);
                self.fill(Statement, template, scope)
            }
            57..=63 => self.growth(scope),
            53..=56 => {
                let kind = *self.pick(&[Int, Tensor, List]);
                match self.call(kind, scope) {
                    Some(call) => Node::new(Statement, "LOG.append($)", vec![call]),
                    None => self.fill(Statement, "LOG.append(<v>)", scope),
                }
            }
            _ => {
                let mut template = *self.pick(STATEMENTS);
                while raises(template) && !self.chance(scope.daring()) {
                    template = *self.pick(STATEMENTS);
                }
                self.fill(Statement, template, scope)
            }
        }
    }

    /// A list gets longer. Where that may happen often, or under a loop over that list, there is a limit.
    fn growth(&mut self, scope: &Scope) -> Node {
        let template = *self.pick(GROWING);
        if scope.depth == 0 {
            return self.fill(Statement, &template.replace('@', "<l>"), scope);
        }
        let names: Vec<_> = scope.names(List).cloned().collect();
        if names.is_empty() {
            return self.fill(Statement, "LOG.append(<v>)", scope);
        }
        let name = self.pick(&names).clone();
        let statement = template.replace('@', &name);
        self.fill(Statement, &format!("if len({name}) < 8:\n    {statement}"), scope)
    }

    fn branch(&mut self, scope: &Scope) -> Node {
        let (condition, body) = (self.expression(Bool, scope), self.block(scope, 3));
        let mut clauses = Vec::new();
        if self.chance(30) {
            let parts = vec![self.expression(Bool, scope), self.block(scope, 3)];
            clauses.push(Node::new(Clause, "elif $:\n    $", parts));
        }
        if self.chance(50) {
            clauses.push(Node::new(Clause, "else:\n    $", vec![self.block(scope, 3)]));
        }
        compound("if $:\n    $", vec![condition, body], clauses)
    }

    /// `else` of a loop.
    fn otherwise(&mut self, scope: &Scope) -> Vec<Node> {
        if self.chance(30) {
            vec![Node::new(Clause, "else:\n    $", vec![self.block(scope, 2)])]
        } else {
            Vec::new()
        }
    }

    fn for_loop(&mut self, scope: &Scope) -> Node {
        let mut inner = Scope { in_loop: true, ..scope.clone() };
        let mut name = |generator: &mut Self, kind| {
            let existing = generator.chance(20) && kind == Int;
            let name = if existing { generator.target(kind, scope) } else { generator.fresh("k") };
            inner.readable.push((kind, name.clone()));
            name
        };
        let (head, over) = match self.below(10) {
            0 => (format!("{}, {}", name(self, Int), name(self, Str)), "zip(<l>, <w>)"),
            1 => (format!("{}, {}", name(self, Str), name(self, Int)), "<d>.items()"),
            2 => (format!("{}, {}", name(self, Int), name(self, Int)), "enumerate(<k>)"),
            3 => (format!("{}, {}", name(self, Int), name(self, Int)), "zip(<k>, <k>)"),
            4 => (name(self, Tensor), "<t>"),
            5 => (name(self, Str), "<d>"),
            6 => (name(self, Tensor), "[<t>, <t>]"),
            _ => (name(self, Int), "<k>"),
        };
        let over = self.fill(Iterable, over, scope);
        let body = self.block(&inner, 4);
        let clauses = self.otherwise(scope);
        let text = format!("for {head} in $:\n    $");
        compound(&text, vec![over, body], clauses)
    }

    fn while_loop(&mut self, scope: &Scope) -> Node {
        let counter = self.fresh("c");
        let mut inner = Scope { in_loop: true, ..scope.clone() };
        inner.readable.push((Int, counter.clone()));
        let body = self.block(&inner, 3);
        let clauses = self.otherwise(scope);
        let most = self.between(1, 4);
        if self.chance(40) {
            let condition = self.expression(Bool, &Scope { expression_depth: 2, ..scope.clone() });
            let text = format!("{counter} = 0\nwhile ({counter} := {counter} + 1) <= {most} and $:\n    $");
            return compound(&text, vec![condition, body], clauses);
        }
        let text = format!("{counter} = {most}\nwhile {counter}:\n    {counter} -= 1\n    $");
        compound(&text, vec![body], clauses)
    }

    fn try_statement(&mut self, scope: &Scope) -> Node {
        let body = self.block(&Scope { in_try: true, ..scope.clone() }, 4);
        let mut clauses = Vec::new();
        for _ in 0..self.below(3) {
            let kinds = self.pick(CAUGHT);
            let handler = Scope { in_handler: true, ..scope.clone() };
            let inner = self.block(&handler, 3);
            if self.chance(60) {
                let name = self.fresh("e");
                let template = *self.pick(HANDLING);
                let looked = self.fill(Statement, &template.replace('@', &name), &handler);
                let text = format!("except {kinds} as {name}:\n    $\n    $");
                let parts = if self.chance(70) { vec![looked, inner] } else { vec![inner, looked] };
                clauses.push(Node::new(Clause, text, parts));
            } else {
                clauses.push(Node::new(Clause, format!("except {kinds}:\n    $"), vec![inner]));
            }
        }
        if !clauses.is_empty() && self.chance(25) {
            clauses.push(Node::new(Clause, "else:\n    $", vec![self.block(scope, 2)]));
        }
        if clauses.is_empty() || self.chance(35) {
            clauses.push(Node::new(Clause, "finally:\n    $", vec![self.block(scope, 2)]));
        }
        compound("try:\n    $", vec![body], clauses)
    }

    fn with_statement(&mut self, scope: &Scope) -> Node {
        let manager = *self.pick(MANAGERS);
        let (w, v) = (self.fresh("m"), self.fresh("w"));
        let scope = &Scope { in_try: !manager.contains("Manager(\"m\")"), ..scope.clone() };
        let template = manager.replace('@', &v);
        if self.chance(20) {
            let second = self.pick(MANAGERS).replace('@', &w);
            return Node::new(Statement, format!("with {template}, {second}:\n    $"), vec![self.block(scope, 3)]);
        }
        Node::new(Statement, format!("with {template}:\n    $"), vec![self.block(scope, 3)])
    }

    /// Return, raise, break, continue.
    fn jump(&mut self, scope: &Scope) -> Node {
        let guarded = self.chance(if scope.depth == 0 { 100 } else { 60 });
        let template = match self.below(5) {
            0 | 1 if scope.in_loop => (*self.pick(&["break", "continue"])).to_owned(),
            0 | 2 if scope.in_generator => "return".to_owned(),
            0 | 2 => match scope.returns {
                Some(Int) => "return <i>".to_owned(),
                Some(Tensor) => "return <t>".to_owned(),
                Some(List) => "return <l>".to_owned(),
                _ => "return <v>, <v>".to_owned(),
            },
            1 if scope.in_handler => "raise".to_owned(),
            _ => (*self.pick(RAISES)).to_owned(),
        };
        let jump = self.fill(Statement, &template, scope);
        if !guarded {
            return jump;
        }
        let condition = self.expression(Bool, scope);
        Node::new(Statement, "if $:\n    $", vec![condition, Node::block(vec![jump])])
    }
}

fn declare(scope: &mut Scope, kind: Kind, name: &str) {
    scope.readable.push((kind, name.to_owned()));
    scope.writable.push((kind, name.to_owned()));
}

/// A statement with clauses below it.
fn compound(text: &str, mut parts: Vec<Node>, clauses: Vec<Node>) -> Node {
    let text = text.to_owned() + &"\n$".repeat(clauses.len());
    parts.extend(clauses);
    Node::new(Statement, text, parts)
}

fn kind_of(letter: &str) -> Kind {
    match letter.to_lowercase().as_str() {
        "i" => Int,
        "t" => Tensor,
        "l" => List,
        "d" => Dict,
        "s" => Set,
        "w" => Str,
        "p" => Object,
        "b" => Bool,
        "k" => Iterable,
        "v" => Any,
        _ => unreachable!("no such letter in a template: {letter}"),
    }
}

fn prefix(kind: Kind) -> &'static str {
    match kind {
        Int => "i",
        Tensor => "t",
        List => "l",
        Dict => "d",
        Set => "s",
        Str => "w",
        _ => "p",
    }
}

fn literals(kind: Kind) -> &'static [Template] {
    match kind {
        Int => &["0", "1", "2", "3", "-1", "5"],
        Tensor => &["toy.ones([2])", "toy.arange(2)"],
        List => &["[]", "[1]", "[3, 1, 2]", "[2, 2]", "list(range(3))"],
        Dict => &["{}", "{\"a\": 2}", "{\"b\": 1, \"c\": 0}", "dict(a=3)"],
        Set => &["set()", "{1}", "{3, 1}"],
        Str => &["\"a\"", "\"b\"", "\"c\"", "\"\"", "\"xy\""],
        Object => &["Point(2)", "Point(5)", "Child(1)"],
        Bool => &["True", "False", "0", "1"],
        Iterable => &["range(3)", "(1, 2)", "count(2)", "Countdown(2)", "[1, 0]"],
        _ => &["None"],
    }
}

/// Whether a tensor's value, or something that cannot be followed, is in a template.
fn breaks(template: &str) -> bool {
    ["int(<t>", "bool(<t>", "<t>.sum() >", "zlib", "item()", "tolist", "str(<t>", "repr(<t>"].iter().any(|mark| template.contains(mark))
}

/// Whether it often raises.
fn raises(template: &str) -> bool {
    let marks = [
        "<l>[<i>]", "<l>[-1]", "<l>[0]", "<d>[", "<p>.w", "<p>[<n>]", "pop(", ".index(", "// <i>", "% <i>)", "<t>[", "@ <t>", "<w>[<i>]", "//= <i>",
        "del ", "remove(", "popitem", "assert", "<I>, <I> = <l>", "*<L>", "<p>.u", "zip(<w>",
    ];
    marks.iter().any(|mark| template.contains(mark))
}

fn expressions(kind: Kind) -> &'static [Template] {
    match kind {
        Int => &[
            "(<i> + <i>)", "(<i> - <i>)", "(<i> * <n>)", "(<i> * <i> % 97)", "(<i> // <i>)", "(<i> % <i>)", "(-<i>)", "(<i> if <b> else <i>)",
            "(<i> & <i>)", "(<i> and <i>)", "(<i> or <i>)", "len(<l>)", "len(<w>)", "len(<d>)", "sum(<k>)", "<l>[<i>]", "<l>[-1]", "<d>[<w>]",
            "<d>.get(<w>, <i>)", "<d>.get(<w>, 0)", "<p>.v", "<p>.half", "<p>.grow()", "<p>.grow(<i>)", "<p>(<i>)", "<p>.w", "getattr(<p>, \"w\", <i>)", "<p>[<n>]",
            "max(<i>, <i>)", "min(<l>, default=<i>)", "abs(<i>)", "int(<b>)", "<t>.ndim", "<t>.shape[0]", "<t>.size", "next(iter(<k>), <i>)",
            "int(<t>.sum())", "int(<t>.sum().item() > 1)", "zlib.crc32(b\"a\") % 7 + <i>", "<l>.pop()", "<l>.index(<i>)", "<l>.count(<i>)",
            "<d>.pop(<w>, <i>)", "<d>.setdefault(<w>, <i>)", "Point.twice(<i>)", "max(<l>, key=lambda z: -z)", "len(<p>)", "(<i>, <i>)[<b>]", "[*<l>, <i>][0]",
            "sum(<i> for z in range(2))", "divmod(<i>, 3)[1]", "round(<i>)", "len({*<k>})",
        ],
        Tensor => &[
            "(<t> + <t>)", "(<t> - <t>)", "(<t> * <n>)", "(<t> * <i>)", "(<t> + <i>)", "(<i> - <t>)", "(-<t>)", "toy.relu(<t>)", "<t>.sum()", "<t>.mean()",
            "<t>.relu()", "<t>.abs()", "(<t> if <b> else <t>)", "toy.add(<t>, <t>, alpha=<i>)", "toy.add(<t>, <t>)", "[<t>, <t>][<b>]", "toy.where(<t> > <i>, <t>, <t>)",
            "toy.stack([<t>, <t>]).sum(axis=0)", "toy.concat([<t>, <t>])[:3]", "<t>[0]", "<t>[:1]", "<t>[<i>]", "<p>.scale(<t>)", "(<t> + <t>.sum())", "<t>.clone()",
            "sum([<t>, <t>])", "toy.minmax(<t>)[0]", "(<t> or <t>)", "<t>.reshape(-1)", "(<t> * <p>.v)", "max([<t>, <t>], key=lambda z: z.ndim)",
            "{\"t\": <t>}[\"t\"]", "(<t> @ <t>)", "(<t> + <t>.shape[0])",
        ],
        List => &[
            "[<i>, <i>]", "[<i>]", "(<l> + <l>)[:6]", "<l>[:<n>]", "<l>[::-1]", "sorted(<l>)", "list(<k>)", "<l>.copy()", "[*<l>, <i>][:6]", "list(<d>.values())",
            "(<l> if <b> else <l>)", "(<l> or [1])", "sorted(<s>)", "list(map(lambda z: z + <i>, <l>))", "list(filter(None, <l>))", "(<l> * 2)[:6]",
            "[<i> for _ in range(2)]", "[v for _, v in sorted(<d>.items())]", "sorted(<l>, key=lambda z: -z)",
        ],
        Dict => &[
            "{<w>: <i>}", "{**<d>, <w>: <i>}", "dict(<d>)", "<d>.copy()", "dict(zip(<w>, <l>))", "{k: <i> for k in <d>}", "{w: z for w, z in zip(\"abc\", <k>)}",
            "(<d> or {\"a\": <i>})", "dict(<d>, b=<i>)",
        ],
        Set => &["{<i>, <i>}", "set(<k>)", "(<s> | <s>)", "(<s> & <s>)", "(<s> - {<i>})", "{z + 1 for z in <k>}"],
        Str => &[
            "str(<i>)", "f'{<f>}'", "(<w> + <w>)[:6]", "<w>.upper()", "\"%s-%d\" % (<w>, <i>)", "\",\".join(map(str, <l>))", "repr(<l>)", "<w>[:1]", "<w>[<i>]", "f'{<f>!r:>3}|'",
            "\"{}{}\".format(<w>, <i>)", "(<w> if <b> else <w>)", "type(<v>).__name__", "str(<t>)", "<p>.kind",
        ],
        Object => &["Point(<i>)", "Child(<i>, <i>)", "(<p> + <p>)", "Point.make(<i>)", "Child.make(<i>)", "type(<p>)(<i>)", "(<p> if <b> else <p>)", "(<p> or <p>)"],
        Bool => &[
            "<i> < <i>", "<i> == <i>", "(not <b>)", "(<b> and <b>)", "(<b> or <b>)", "<i> in <l>", "<w> in <d>", "<l>", "<d>", "<p>", "<s>", "<i>", "<i> < <i> <= <i>", "<l> is <l>",
            "<d> is <d>", "<t> is <t>", "<p> == <p>", "<l> == <l>", "<t>.sum() > <i>", "bool(<t>.sum() > 0)", "isinstance(<p>, Child)", "isinstance(<v>, int)", "<i> not in <s>",
            "any(<k>)", "all(z > <i> for z in <l>)", "hasattr(<p>, \"w\")", "callable(<p>)", "<t>.shape == [2]", "<t>.shape[0] > 2", "<w> < <w>", "<d> == <d>", "<t>.sum() > 1", "<p> is not None",
        ],
        Iterable => &[
            "range(<i> % 4)", "range(<n>)", "<l>", "reversed(<l>)", "(z for _, z in enumerate(<l>))", "<d>.values()", "map(lambda z: z + <i>, <l>)", "Countdown(<i> % 4)",
            "count(<i> % 4)", "sorted(<s>)", "<p>", "iter(<l>)", "(<i>, <i>)", "filter(lambda z: z != <i>, <l>)", "<l>[:3]", "list(<l>)",
        ],
        _ => &["None"],
    }
}

const STATEMENTS: &[Template] = &[
    "<I> = <i>", "<I> += <i>", "<I> -= <i>", "<I> *= <n>", "<I> //= <i>", "<I> %= 7", "<I>, <I> = <i>, <i>", "<I>, *<L> = <l>", "<I>, <I> = <l>[:2]", "<I> = <I> = <i>",
    "<T> = <t>", "<T> = <t>", "<T> += <t>", "<T> = <t> * <i>", "<T>, <I> = <t>, <i>", "<T>, <T> = <t>, <t>", "<T> -= <i>", "<T> *= <n>", "[<T>, <I>] = [<t>, <i>]",
    "<L> = <l>", "<l>[<i>] = <i>", "<l>[0] = <i>", "<l>.pop()", "<l>.pop(0)", "<l>.sort()", "<l>.reverse()", "del <l>[0]", "del <l>[<i>:]", "<l>.remove(<i>)", "<l>.clear()", "<L> = <L> = <l>", "<l>[-1] += <i>", "<L>, <L> = <l>, <l>",
    "<D> = <d>", "<d>[<w>] = <i>", "<d>[<w>] = <i>", "<d>[\"a\"] += <i>", "<d>.update(b=<i>)", "<d>.setdefault(<w>, <i>)", "<d>.pop(\"a\", <i>)", "del <d>[<w>]", "<d>.update(<d>)", "<d>.clear()", "<d>.popitem()",
    "<S> = <s>", "<s>.add(<i>)", "<s>.discard(<i>)", "<s>.update(<k>)", "<S> |= {<i>}", "<s>.remove(<i>)",
    "<W> = <w>[:6]", "<W> += <w>[:1]",
    "<P> = <p>", "<p>.v = <i>", "<p>.v += <i>", "<p>.half = <i>", "<p>.grow(<i>)", "<p>.t = <t>", "<p>.scale(<t>)", "setattr(<p>, \"w\", <i>)", "<p>.u = <l>", "<P> += <p>", "del <p>.u", "<p>.v, <I> = <i>, <i>",
    "<p>.half += <i>",
    "LOG.append(<v>)", "LOG.append(<v>)", "LOG.append((<v>, <v>))", "LOG.append([<v>])", "GL[0] = <i>", "LOG.append(<t>)", "LOG.append(f'{<f>} {<f>:03}')",
    "assert <b>", "assert <b>, <i>", "<i>", "<k>", "pass", "<I> = len(list(<k>))", "<L> = list(<k>)", "LOG.append(<p>.t)", "Point.kind = <w>[:4]",
];

/// What makes a list, `@`, longer.
const GROWING: &[Template] = &["@.append(<i>)", "@.append(<i>)", "@.extend(<l>[:2])", "@.insert(0, <i>)", "@[1:2] = [<i>, <i>]", "bisect.insort(@, <i>)", "@.__iadd__([<i>])"];

const BREAKING: &[Template] = &[
    "print(<t>)", "print(<i>, <t>.shape)", "LOG.append(<t>.sum().item())", "toy.save(<t>)", "zlib.crc32(<w>.encode())", "if <t>.sum() > <i>:\n    <T> = <t>\nelse:\n    <I> += 1",
    "<I> = int(<t>.sum())", "LOG.append(<t>.tolist())", "if bool(<t>.sum() > <i>):\n    LOG.append(<v>)", "<T> = <t> if <t>.sum() > 0 else <t>", "<L> = [int(<t>.sum()) + z for z in <k>]",
    "<p>.v = int(<t>.sum())", "<l>[0] = int(<t>.mean())", "<d>[<w>] = int(<t>.sum())", "while <t>.sum() > 2:\n    break", "assert <t>.sum() > -50, <i>",
];

const RAISES: &[Template] = &[
    "raise ValueError(<i>)", "raise ValueError", "raise KeyError(<w>)", "raise Boom(<v>)", "raise Crash(<i>)", "raise Crash(<i>, hint=<w>)", "raise Boom(<i>) from ValueError(<i>)", "raise TypeError(<w>, <i>) from None",
    "raise Boom", "<i> // 0", "next(iter([]))", "raise IndexError(<i>)", "raise StopIteration(<i>)",
];

const CAUGHT: &[Template] = &["ValueError", "(KeyError, IndexError)", "Boom", "Crash", "Exception", "(Boom, ValueError)", "ZeroDivisionError", "LookupError", "Exception", "ArithmeticError", "TypeError"];

/// What a handler does with its exception, `@`.
const HANDLING: &[Template] = &[
    "LOG.append(@.args)", "LOG.append(str(@))", "LOG.append(type(@).__name__)", "LOG.append(repr(@))", "raise", "raise @", "raise Boom(<i>) from @", "raise ValueError(<i>)", "LOG.append(@)", "raise Crash(<i>) from None",
    "LOG.append(isinstance(@, Boom))", "if <b>:\n    raise", "LOG.append(@.__cause__)", "@.extra = <i>", "LOG.append(getattr(@, \"code\", None))", "<I> = len(@.args)",
];

const MANAGERS: &[Template] = &[
    "Manager(\"m\")", "Manager(\"b\", Boom) as @", "Manager(\"e\", (Boom, ValueError))", "Manager(\"all\", Exception)", "managed(\"g\") as @", "managed(\"h\")", "contextlib.suppress(KeyError)", "contextlib.suppress(ValueError, Boom)",
];
