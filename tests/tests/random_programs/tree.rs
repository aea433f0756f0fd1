//! Programs as trees of text with holes, and the reduction of such trees to smaller ones.

/// What stands at a place of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// Statements, one below the other.
    Block,
    /// Expressions with commas between them.
    Items,
    /// A part that may be missing: `else: …`, a handler.
    Clause,
    Statement,
    /// A condition: anything with a truth value.
    Bool,
    Int,
    Tensor,
    List,
    /// A list of lists.
    Rows,
    Dict,
    /// A list of tensors.
    Tensors,
    /// A dict of tensors.
    Table,
    Set,
    Str,
    Object,
    /// What a loop runs over; gives ints.
    Iterable,
    Any,
}

/// A piece of a program: `$` in the text is the place of the next part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    text: String,
    parts: Vec<Node>,
}

impl Node {
    pub(crate) fn new(kind: Kind, text: impl Into<String>, parts: Vec<Node>) -> Self {
        Node { kind, text: text.into(), parts }
    }

    pub(crate) fn leaf(kind: Kind, text: impl Into<String>) -> Self {
        Node::new(kind, text, Vec::new())
    }

    pub(crate) fn block(statements: Vec<Node>) -> Self {
        Node::new(Kind::Block, "", statements)
    }

    pub(crate) fn items(items: Vec<Node>) -> Self {
        Node::new(Kind::Items, "", items)
    }

    /// The Python source.
    pub(crate) fn source(&self) -> String {
        let mut out = String::new();
        self.render(&mut out);
        let lines: Vec<_> = out.lines().filter(|line| !line.trim().is_empty()).collect();
        lines.join("\n") + "\n"
    }

    /// Lines go on in the column where they start.
    fn render(&self, out: &mut String) {
        let line = out.rsplit('\n').next().unwrap_or_default();
        let margin = line.len() - line.trim_start().len();
        let newline = format!("\n{}", " ".repeat(margin));
        let separator = match self.kind {
            Kind::Block => &newline,
            Kind::Items => ", ",
            _ => return self.render_text(out, &newline),
        };
        if self.kind == Kind::Block && self.parts.is_empty() {
            out.push_str("pass");
        }
        for (i, part) in self.parts.iter().enumerate() {
            if i > 0 {
                out.push_str(separator);
            }
            part.render(out);
        }
    }

    fn render_text(&self, out: &mut String, newline: &str) {
        let mut parts = self.parts.iter();
        for c in self.text.chars() {
            match c {
                '\n' => out.push_str(newline),
                '$' => parts.next().expect("a part for each hole").render(out),
                c => out.push(c),
            }
        }
    }

    fn size(&self) -> usize {
        1 + self.parts.iter().map(Node::size).sum::<usize>()
    }

    /// The simplest thing of the same kind.
    fn simplest(&self) -> Option<Node> {
        let text = match self.kind {
            Kind::Clause => "",
            Kind::Statement => "pass",
            Kind::Bool => "True",
            Kind::Int => "1",
            Kind::Tensor => "x",
            Kind::List | Kind::Rows | Kind::Tensors | Kind::Iterable => "[]",
            Kind::Dict | Kind::Table => "{}",
            Kind::Str => "\"\"",
            Kind::Any => "None",
            Kind::Block | Kind::Items | Kind::Set | Kind::Object => return None,
        };
        (self.text != text).then(|| Node::leaf(self.kind, text))
    }

    /// Every way to make the tree smaller by one step, large steps first.
    pub(crate) fn cuts(&self) -> Vec<Cut> {
        let mut cuts = Vec::new();
        self.collect_cuts(&mut Vec::new(), &mut cuts);
        cuts.sort_by_key(|cut| std::cmp::Reverse(cut.gain));
        cuts
    }

    fn collect_cuts(&self, path: &mut Vec<usize>, cuts: &mut Vec<Cut>) {
        if matches!(self.kind, Kind::Block | Kind::Items) {
            self.collect_removals(path, cuts);
        } else {
            let alternatives = self.descendants(|node| node.kind == self.kind).into_iter().cloned();
            for with in self.simplest().into_iter().chain(alternatives) {
                let gain = self.size().saturating_sub(with.size());
                cuts.push(Cut { path: path.clone(), gain, change: Change::Replace(with) });
            }
        }
        for (i, part) in self.parts.iter().enumerate() {
            path.push(i);
            part.collect_cuts(path, cuts);
            path.pop();
        }
    }

    fn collect_removals(&self, path: &[usize], cuts: &mut Vec<Cut>) {
        let mut chunk = self.parts.len();
        while chunk > 0 {
            for start in (0..self.parts.len()).step_by(chunk) {
                let end = (start + chunk).min(self.parts.len());
                let gain = self.parts[start..end].iter().map(Node::size).sum();
                let change = Change::Splice { start, end, with: Vec::new() };
                cuts.push(Cut { path: path.to_vec(), gain, change });
            }
            chunk /= 2;
        }
        for (i, part) in self.parts.iter().enumerate() {
            for inner in part.descendants(|node| node.kind == self.kind) {
                let gain = part.size().saturating_sub(inner.size());
                let change = Change::Splice { start: i, end: i + 1, with: inner.parts.clone() };
                cuts.push(Cut { path: path.to_vec(), gain, change });
            }
        }
    }

    /// The nearest nodes below this one that fulfil the test.
    fn descendants(&self, test: impl Fn(&Node) -> bool + Copy) -> Vec<&Node> {
        self.parts.iter().flat_map(|part| if test(part) { vec![part] } else { part.descendants(test) }).collect()
    }

    /// The tree with a cut made.
    pub(crate) fn cut(&self, cut: &Cut) -> Node {
        let mut whole = self.clone();
        let place = cut.path.iter().fold(&mut whole, |node, &i| &mut node.parts[i]);
        match &cut.change {
            Change::Replace(with) => *place = with.clone(),
            Change::Splice { start, end, with } => drop(place.parts.splice(*start..*end, with.iter().cloned())),
        }
        whole
    }
}

/// A step that makes a tree smaller.
#[derive(Debug)]
pub(crate) struct Cut {
    path: Vec<usize>,
    gain: usize,
    change: Change,
}

#[derive(Debug)]
enum Change {
    Replace(Node),
    Splice { start: usize, end: usize, with: Vec<Node> },
}
