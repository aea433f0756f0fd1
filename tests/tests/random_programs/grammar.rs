//! The grammar of random programs. A name keeps one type, so most operations succeed; those that fail raise, which is
//! tested, too. Loops end: their iterables are short, `while` loops count, and a loop over a list is left when the
//! list has grown.

use std::collections::HashMap;
use std::sync::LazyLock;

use sot_core::version::PyVersion;

use crate::tree::{Kind, Node};
use Kind::{Any, Bool, Clause, Dict, Int, Iterable, List, Object, Rows, Set, Statement, Str, Table, Tensor, Tensors};

/// Constructs that are not generated for now, and why.
pub(crate) const EXCLUDED: &[(&str, &str)] = &[
    (
        "unbound variables",
        "nearly all of a program's names would be; `cases/unbound.py` has them, and generators may see an error of CPython's",
    ),
    (
        "generators left suspended by an exception",
        "its traceback keeps CPython's frames, with their variables; new code's hold fewer, and the `finally` of such a generator \
         runs when the exception leaves",
    ),
    ("roots of which nobody needs the result", "they are not computed, and do not raise where the number is negative"),
];

/// Classes and functions every program may use.
const PRELUDE: &str = include_str!("prelude.py");

/// A line of `templates.txt`, which says what the marks mean.
#[derive(Debug, Clone)]
struct Template {
    text: String,
    breaks: bool,
    raises: bool,
}

/// The templates by section.
static TEMPLATES: LazyLock<HashMap<&str, Vec<Template>>> = LazyLock::new(|| {
    let mut sections: HashMap<&str, Vec<Template>> = HashMap::new();
    let mut section = "";
    for line in include_str!("templates.txt").lines() {
        if let Some(title) = line.strip_prefix("## ") {
            section = title;
        } else if !line.is_empty() && !line.starts_with("# ") {
            let (marks, text) =
                line.split_once(' ').filter(|(marks, _)| ["~", "!", "~!", "^"].contains(marks)).unwrap_or(("", line));
            if marks.contains('^') && PyVersion::BUILT_FOR < PyVersion(10) {
                continue;
            }
            let template =
                Template { text: text.replace("\\n", "\n"), breaks: marks.contains('~'), raises: marks.contains('!') };
            sections.entry(section).or_default().push(template);
        }
    }
    sections
});

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
#[allow(clippy::struct_excessive_bools, reason = "each says that a statement may stand there")]
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
        if self.in_try {
            70
        } else {
            12
        }
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

impl Generator {
    /// A number that looks random (splitmix64).
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

    fn template(&mut self, section: &str) -> Template {
        self.pick(&TEMPLATES[section]).clone()
    }

    fn fresh(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    /// Fills a template.
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
            let of = *self.pick(&[Int, Int, Tensor, Tensor, Str, List, Rows, Dict, Tensors, Table, Object, Set, Bool]);
            return Node::new(Any, "$", vec![self.expression(of, scope)]);
        }
        let shallow = scope.expression_depth > 2 || self.chance(45);
        let names: Vec<_> = scope.names(kind).cloned().collect();
        if shallow && !names.is_empty() && (kind != Int || self.chance(70)) {
            return Node::leaf(kind, self.pick(&names).clone());
        }
        if shallow || scope.expression_depth > 3 {
            return Node::leaf(kind, self.template(&format!("literal {kind:?}")).text);
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
        let template = self.template(&format!("expression {kind:?}"));
        let wanted = if template.breaks { 40 } else { 100 } * if template.raises { scope.daring() } else { 100 } / 100;
        if !self.chance(wanted) {
            return self.expression(kind, &scope.expression());
        }
        self.fill(kind, &template.text, scope)
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
        let suitable: Vec<_> =
            scope
                .helpers
                .iter()
                .filter(|callable| {
                    if kind == Iterable {
                        callable.generator
                    } else {
                        !callable.generator && callable.returns == kind
                    }
                })
                .cloned()
                .collect();
        if suitable.is_empty() {
            return None;
        }
        let callable = self.pick(&suitable).clone();
        let inner = scope.expression();
        let mut args = vec![self.expression(callable.first, &inner)];
        let mut text = vec!["$".to_owned()];
        let mut named = false;
        if let Some(optional) = &callable.optional {
            if self.chance(60) {
                args.push(self.expression(Int, &inner));
                named = self.chance(40);
                text.push(if named { format!("{optional}=$") } else { "$".to_owned() });
            }
            if callable.rest && args.len() == 2 && !named && self.chance(50) {
                let starred = self.chance(50);
                args.push(self.expression(if starred { List } else { Int }, &inner));
                text.push(if starred { "*$" } else { "$" }.to_owned());
            }
        }
        if let Some(keyword) = &callable.keyword {
            if self.chance(50) {
                args.push(self.expression(Int, &inner));
                text.push(if self.chance(30) { format!("**{{\"{keyword}\": $}}") } else { format!("{keyword}=$") });
            }
        }
        if callable.keywords && self.chance(50) {
            args.push(self.expression(Int, &inner));
            text.push("other=$".to_owned());
        }
        Some(Node::new(kind, format!("{}({})", callable.name, text.join(", ")), args))
    }

    /// A function of its own or inside another, and how it is called.
    fn function(&mut self, around: &Scope, prefix: &str) -> (Node, Callable) {
        let name = self.fresh(prefix);
        let generator = self.chance(25);
        let first = *self.pick(&[Int, Tensor, Tensor, List, Tensors]);
        let callable = Callable {
            returns: *self.pick(&[Int, Tensor, List, Tensors]),
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
        let mut parameters = vec![parameter.clone()];
        declare(&mut scope, first, &parameter);
        if let Some(optional) = &callable.optional {
            parameters.push(format!("{optional}=$"));
            // A module that fails to load is no program.
            let outermost = around.depth == 0 && prefix == "h";
            defaults.push(if outermost { Node::leaf(Int, "2") } else { self.expression(Int, &around.expression()) });
            declare(&mut scope, Int, optional);
        }
        if callable.rest {
            let rest = self.fresh("r");
            parameters.push(format!("*{rest}"));
            scope.readable.push((Iterable, rest));
        } else if callable.keyword.is_some() {
            parameters.push("*".to_owned());
        }
        if let Some(keyword) = &callable.keyword {
            parameters.push(format!("{keyword}={}", self.below(5)));
            declare(&mut scope, Int, keyword);
        }
        if callable.keywords {
            let keywords = self.fresh("kw");
            parameters.push(format!("**{keywords}"));
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
        let definition =
            Node::new(Statement, format!("def {}({}):\n    $", callable.name, parameters.join(", ")), defaults);
        (definition, callable)
    }

    /// Local variables with their first values, and perhaps the global.
    fn locals(&mut self, scope: &mut Scope, statements: &mut Vec<Node>, percent: usize) {
        if self.chance(50) {
            statements.push(Node::leaf(Statement, "global G"));
            scope.writable.push((Int, "G".to_owned()));
        }
        for kind in [Int, Int, Tensor, List, List, Rows, Dict, Tensors, Table, Set, Str, Object] {
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

    /// Arguments of the calls: the same ones twice, then others, or the same after something was changed.
    fn makers(&mut self) -> Node {
        let first = self.arguments();
        let mut makers = vec![first.clone(), first.clone()];
        for _ in 0..3 {
            makers.push(if self.chance(30) { first.clone() } else { self.arguments() });
        }
        let makers: Vec<_> = makers
            .into_iter()
            .enumerate()
            .map(|(call, arguments)| {
                let change = (call > 1 && self.chance(50)).then(|| self.template("changes").text);
                let change = change.map_or_else(String::new, |change| format!("exec('{change}', globals()) or "));
                Node::leaf(Any, format!("lambda: {change}{arguments}"))
            })
            .collect();
        Node::new(Statement, "makers = [$]", vec![Node::items(makers)])
    }

    fn arguments(&mut self) -> String {
        let tensor = self.pick(&[
            "toy.arange(2)",
            "toy.arange(2)",
            "toy.arange(3)",
            "toy.arange(2) - 3",
            "toy.ones([2])",
            "KEPT[3]",
        ]);
        let number = self.pick(&["1", "1", "2", "0", "-1", "3", "True", "7", "2.5", "1.0", "-0.0", "0.0"]);
        let list = self.pick(&["[1, 2]", "[1, 2]", "[]", "[3]", "[2, 0, 1]", "[0, 5, -1, 4]", "KEPT[0]", "GL"]);
        let dict = self.pick(&["{\"a\": 1}", "{\"a\": 1}", "{}", "{\"b\": 2, \"a\": 3}", "KEPT[1]"]);
        let object = self.pick(&[
            "Point(2)",
            "Point(2)",
            "Point(3)",
            "Child(1, 2)",
            "Point(0)",
            "Hooked(1)",
            "KEPT[2]",
            "KEPT[2]",
        ]);
        let shared = if self.chance(20) { "shared" } else { "" };
        format!("{shared}({tensor}, {number}, {list}, {dict}, {object})")
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
                let template = self.template("breaking").text;
                self.fill_named(&template, scope)
            }
            50..=52 if scope.in_generator => {
                let template = *self.pick(&["yield <i>", "yield <i>", "LOG.append((yield <i>))", "yield from <k>"]);
                self.fill(Statement, template, scope)
            }
            57..=62 => self.growth(scope),
            63 if scope.depth < 3 => self.class(scope),
            53..=56 => {
                let kind = *self.pick(&[Int, Tensor, List]);
                match self.call(kind, scope) {
                    Some(call) => Node::new(Statement, "LOG.append($)", vec![call]),
                    None => self.fill(Statement, "LOG.append(<v>)", scope),
                }
            }
            _ => {
                let mut template = self.template("statements");
                while template.raises && !self.chance(scope.daring()) {
                    template = self.template("statements");
                }
                self.fill_named(&template.text, scope)
            }
        }
    }

    /// Fills a template that has a name of its own.
    fn fill_named(&mut self, template: &str, scope: &Scope) -> Node {
        if !template.contains('@') {
            return self.fill(Statement, template, scope);
        }
        let name = self.fresh("");
        self.fill(Statement, &template.replace('@', &name), scope)
    }

    /// A class made in the function; making an instance is how it is known from there on.
    fn class(&mut self, scope: &mut Scope) -> Node {
        let name = self.fresh("C");
        let base = *self.pick(&["Point", "Child", "Hooked"]);
        let inner = Scope {
            returns: Some(Int),
            in_loop: false,
            in_handler: false,
            in_generator: false,
            pure_names: true,
            ..scope.deeper()
        };
        let with_names = declared(declared(inner, Int, "by"), Object, "self");
        let value = self.expression(Int, &with_names);
        let kind = self.expression(Str, &Scope { pure_names: true, ..scope.expression() });
        let ending = *self.pick(&["super().grow(by) + $", "$", "self.v + $"]);
        let text = format!("class {name}({base}):\n    kind = $\n    def grow(self, by=1):\n        return {ending}");
        scope.readable.push((Object, format!("{name}({})", self.below(4))));
        Node::new(Statement, text, vec![kind, value])
    }

    /// A list gets longer. Where that may happen often, or under a loop over that list, there is a limit.
    fn growth(&mut self, scope: &Scope) -> Node {
        let (kind, section, any) =
            if self.chance(70) { (List, "growing", "<l>") } else { (Tensors, "growing tensors", "<q>") };
        let template = self.template(section).text;
        if scope.depth == 0 {
            return self.fill(Statement, &template.replace('@', any), scope);
        }
        let names: Vec<_> = scope.names(kind).cloned().collect();
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
        let (head, over) = match self.below(14) {
            0 => (format!("{}, {}", name(self, Int), name(self, Str)), "zip(<l>, <w>)"),
            1 => (format!("{}, {}", name(self, Str), name(self, Int)), "<d>.items()"),
            2 => (format!("{}, {}", name(self, Int), name(self, Int)), "enumerate(<k>)"),
            3 => (format!("{}, {}", name(self, Int), name(self, Int)), "zip(<k>, <k>)"),
            4 => (name(self, Tensor), "<t>"),
            5 => (name(self, Str), "<d>"),
            6 => (name(self, Tensor), "[<t>, <t>]"),
            7 => (name(self, Tensor), "<q>"),
            8 => (format!("{}, {}", name(self, Int), name(self, Tensor)), "enumerate(<q>)"),
            9 => (format!("{}, {}", name(self, Str), name(self, Tensor)), "<m>.items()"),
            10 => (format!("{}, {}", name(self, Tensor), name(self, Int)), "zip(<q>, <k>)"),
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
            let kinds = self.template("caught").text;
            let handler = Scope { in_handler: true, ..scope.clone() };
            let inner = self.block(&handler, 3);
            if self.chance(60) {
                let name = self.fresh("e");
                let template = self.template("handling").text;
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
        let manager = self.template("managers").text;
        let (w, v) = (self.fresh("m"), self.fresh("w"));
        let scope = &Scope { in_try: !manager.contains("Manager(\"m\")"), ..scope.clone() };
        let template = manager.replace('@', &v);
        if self.chance(20) {
            let second = self.template("managers").text.replace('@', &w);
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
                Some(Tensors) => "return <q>".to_owned(),
                _ => "return <v>, <v>".to_owned(),
            },
            1 if scope.in_handler => "raise".to_owned(),
            _ => self.template("raises").text,
        };
        let jump = self.fill(Statement, &template, scope);
        if !guarded {
            return jump;
        }
        let condition = self.expression(Bool, scope);
        Node::new(Statement, "if $:\n    $", vec![condition, Node::block(vec![jump])])
    }
}

fn declared(mut scope: Scope, kind: Kind, name: &str) -> Scope {
    scope.readable.push((kind, name.to_owned()));
    scope
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
        "r" => Rows,
        "d" => Dict,
        "q" => Tensors,
        "m" => Table,
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
        Rows => "r",
        Dict => "d",
        Tensors => "ts",
        Table => "tt",
        Set => "s",
        Str => "w",
        _ => "p",
    }
}
