//! What names stand for: modules and functions by their full names, and texts that are assigned once.

use std::collections::{HashMap, HashSet};

use ruff_python_ast::visitor::{Visitor, walk_expr, walk_parameter, walk_stmt};
use ruff_python_ast::{
    Expr, ExprCall, ExprContext, FStringPart, InterpolatedStringElement, Operator, Parameter, Stmt,
};

use crate::walk::{Field, GAP};

/// So far names that stand for names are followed.
const MOST_STEPS: u32 = 8;
/// A longer text is not put together.
const LONGEST: usize = 64 * 1024;

/// Builtins that matter, and are known without an import.
const BUILTINS: &[&str] = &[
    "eval",
    "exec",
    "compile",
    "open",
    "__import__",
    "getattr",
    "breakpoint",
    "input",
    "vars",
    "globals",
    "locals",
];

/// What names stand for.
#[derive(Debug, Default)]
pub(super) struct Names<'a> {
    /// What a name may stand for, by its full name.
    aliases: HashMap<&'a str, Vec<String>>,
    /// Modules all of whose names were taken.
    stars: Vec<String>,
    /// How often a name is bound.
    bound: HashMap<&'a str, u32>,
    /// What a name that is bound once was bound to.
    values: HashMap<&'a str, &'a Expr>,
    /// Functions and classes of the code itself.
    own: HashSet<&'a str>,
}

impl<'a> Names<'a> {
    pub(super) fn of(suite: &'a [Stmt]) -> Self {
        let mut names = Self::default();
        // A name may stand for one that is only bound further down.
        for _ in 0..2 {
            names.bound.clear();
            names.visit_body(suite);
        }
        names
    }

    fn alias(&mut self, name: &'a str, full: String) {
        let known = self.aliases.entry(name).or_default();
        if !known.contains(&full) && known.len() < 8 {
            known.push(full);
        }
    }

    fn bind(&mut self, name: &'a str) {
        *self.bound.entry(name).or_default() += 1;
    }

    /// The full names that an expression may stand for.
    pub(super) fn full(&self, expr: &'a Expr) -> Vec<String> {
        self.full_within(expr, MOST_STEPS * 4)
    }

    fn full_within(&self, expr: &'a Expr, steps: u32) -> Vec<String> {
        let Some(steps) = steps.checked_sub(1) else {
            return Vec::new();
        };
        if let Expr::Name(name) = expr {
            self.full_of_name(name.id.as_str())
        } else if let Expr::Attribute(attribute) = expr {
            let attr = attribute.attr.as_str();
            let of = self.full_within(&attribute.value, steps);
            of.into_iter().map(|base| joined(&base, attr)).collect()
        } else if let Expr::Call(call) = expr {
            self.called(call, steps)
        } else if let Expr::Subscript(subscript) = expr {
            // `sys.modules["os"]`, `vars(os)["system"]`, `os.__dict__["system"]`.
            let base = self.full_within(&subscript.value, steps);
            let key = self.text(&subscript.slice);
            let Some(key) = key.find() else {
                return Vec::new();
            };
            let named = |base: String| {
                if matches!(base.as_str(), "sys.modules" | "__builtins__" | "builtins") {
                    return Some(key.to_owned());
                }
                if matches!(base.as_str(), "globals()" | "locals()") {
                    return self.full_of_name(key).into_iter().next();
                }
                base.strip_suffix(".__dict__").map(|module| joined(module, key))
            };
            base.into_iter().filter_map(named).collect()
        } else if let Expr::Named(named) = expr {
            self.full_within(&named.value, steps)
        } else if let Expr::If(choice) = expr {
            let mut found = self.full_within(&choice.body, steps);
            found.extend(self.full_within(&choice.orelse, steps));
            found
        } else {
            Vec::new()
        }
    }

    fn full_of_name(&self, name: &str) -> Vec<String> {
        if let Some(full) = self.aliases.get(name) {
            return full.clone();
        }
        if self.own.contains(name) {
            return Vec::new();
        }
        let mut found: Vec<String> =
            self.stars.iter().map(|module| format!("{module}.{name}")).collect();
        if BUILTINS.contains(&name) || matches!(name, "__builtins__" | "builtins") {
            found.push(name.to_owned());
        }
        found
    }

    /// What a call gives, where that is a module, a function, or an object of a known class.
    fn called(&self, call: &'a ExprCall, steps: u32) -> Vec<String> {
        let args = &call.arguments.args;
        let mut found = Vec::new();
        for name in self.full_within(&call.func, steps) {
            match name.as_str() {
                "__import__" | "builtins.__import__" | "importlib.import_module" => {
                    if let Some(module) =
                        args.first().and_then(|arg| self.text(arg).find().map(str::to_owned))
                    {
                        // `__import__("os.path")` gives `os`.
                        let head = module.split('.').next().unwrap_or_default().to_owned();
                        found.push(if name.ends_with("import_module") { module } else { head });
                    }
                }
                "getattr" | "builtins.getattr" => {
                    if let [object, attribute, ..] = &args[..]
                        && let Some(attribute) = self.text(attribute).find()
                    {
                        let bases = self.full_within(object, steps);
                        found.extend(bases.iter().map(|base| joined(base, attribute)));
                    }
                }
                "vars" | "builtins.vars" => {
                    let bases = args.first().map(|object| self.full_within(object, steps));
                    found
                        .extend(bases.into_iter().flatten().map(|base| format!("{base}.__dict__")));
                }
                _ => found.push(format!("{name}()")),
            }
        }
        found
    }

    /// The text of an expression, with gaps for what is not known.
    pub(super) fn text(&self, expr: &'a Expr) -> Field {
        let mut text = String::new();
        self.text_into(expr, &mut text, MOST_STEPS * 4);
        if text.len() > LONGEST {
            text = GAP.to_string();
        }
        Field { splits: false, ..Field::known(&text) }
    }

    fn text_into(&self, expr: &'a Expr, out: &mut String, steps: u32) {
        let Some(steps) = steps.checked_sub(1).filter(|_| out.len() <= LONGEST) else {
            out.push(GAP);
            return;
        };
        if let Expr::StringLiteral(literal) = expr {
            out.push_str(&literal.value.to_str().replace(GAP, ""));
        } else if let Expr::BytesLiteral(literal) = expr {
            let bytes: Vec<u8> = literal.value.bytes().filter(|byte| *byte != 0).collect();
            out.push_str(&String::from_utf8_lossy(&bytes));
        } else if let Expr::FString(literal) = expr {
            for part in &literal.value {
                match part {
                    FStringPart::Literal(text) => out.push_str(&text.value.replace(GAP, "")),
                    FStringPart::FString(inner) => {
                        for element in &inner.elements {
                            match element {
                                InterpolatedStringElement::Literal(text) => {
                                    out.push_str(&text.value.replace(GAP, ""));
                                }
                                InterpolatedStringElement::Interpolation(value) => {
                                    self.text_into(&value.expression, out, steps);
                                }
                            }
                        }
                    }
                }
            }
        } else if let Expr::BinOp(binary) = expr
            && binary.op == Operator::Add
        {
            self.text_into(&binary.left, out, steps);
            self.text_into(&binary.right, out, steps);
        } else if let Expr::BinOp(binary) = expr
            && binary.op == Operator::Mod
        {
            let mut left = String::new();
            self.text_into(&binary.left, &mut left, steps);
            out.push_str(&filled(&left, '%'));
        } else if let Expr::Call(call) = expr
            && let Expr::Attribute(method) = call.func.as_ref()
            && method.attr.as_str() == "format"
        {
            let mut template = String::new();
            self.text_into(&method.value, &mut template, steps);
            out.push_str(&filled(&template, '{'));
        } else if let Expr::Call(call) = expr
            && let [only] = &call.arguments.args[..]
            && self.full(&call.func).iter().any(|name| is_path_class(name))
        {
            self.text_into(only, out, steps);
        } else if let Expr::Name(name) = expr
            && let Some(value) = self.once(name.id.as_str())
        {
            self.text_into(value, out, steps);
        } else {
            out.push(GAP);
        }
    }

    /// What a name that is bound once stands for.
    pub(super) fn once(&self, name: &str) -> Option<&'a Expr> {
        self.values.get(name).copied().filter(|_| self.bound.get(name) == Some(&1))
    }

    /// The elements of a list or tuple, or of a name that stands for one.
    pub(super) fn elements(&self, expr: &'a Expr) -> Option<&'a [Expr]> {
        let mut expr = expr;
        for _ in 0..MOST_STEPS {
            if let Expr::List(list) = expr {
                return Some(&list.elts);
            } else if let Expr::Tuple(tuple) = expr {
                return Some(&tuple.elts);
            } else if let Expr::Name(name) = expr {
                expr = self.once(name.id.as_str())?;
            } else {
                return None;
            }
        }
        None
    }

    fn assigned(&mut self, target: &'a Expr, value: &'a Expr) {
        if let Expr::Name(name) = target {
            let name = name.id.as_str();
            self.values.insert(name, value);
            for full in self.full(value) {
                if !full.ends_with("()") || is_path_class(full.trim_end_matches("()")) {
                    self.alias(name, full);
                }
            }
        }
    }
}

pub(super) fn is_path_class(name: &str) -> bool {
    matches!(name, "pathlib.Path" | "pathlib.PosixPath" | "pathlib.PurePath")
}

fn joined(base: &str, attribute: &str) -> String {
    match base {
        "__builtins__" | "builtins" if BUILTINS.contains(&attribute) => attribute.to_owned(),
        _ => format!("{base}.{attribute}"),
    }
}

/// A template with gaps where something is put in.
fn filled(template: &str, sign: char) -> String {
    let mut out = String::new();
    let mut letters = template.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != sign {
            out.push(letter);
            continue;
        }
        if letters.peek() == Some(&sign) {
            letters.next();
            out.push(sign);
            continue;
        }
        out.push(GAP);
        let ends =
            |letter: char| if sign == '%' { letter.is_ascii_alphabetic() } else { letter == '}' };
        for letter in letters.by_ref() {
            if ends(letter) {
                break;
            }
        }
    }
    out
}

impl<'a> Visitor<'a> for Names<'a> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        if let Stmt::Import(import) = stmt {
            for alias in &import.names {
                let module = alias.name.as_str();
                let head = module.split('.').next().unwrap_or_default();
                match &alias.asname {
                    Some(name) => self.alias(name.as_str(), module.to_owned()),
                    None => self.alias(head, head.to_owned()),
                }
            }
        } else if let Stmt::ImportFrom(import) = stmt
            && import.level == 0
            && let Some(module) = &import.module
        {
            for alias in &import.names {
                let name = alias.name.as_str();
                if name == "*" {
                    if !self.stars.iter().any(|known| known == module.as_str()) {
                        self.stars.push(module.as_str().to_owned());
                    }
                    continue;
                }
                let bound = alias.asname.as_ref().unwrap_or(&alias.name);
                self.alias(bound.as_str(), joined(module.as_str(), name));
            }
        } else if let Stmt::Assign(assign) = stmt {
            for target in &assign.targets {
                self.assigned(target, &assign.value);
            }
        } else if let Stmt::AnnAssign(assign) = stmt
            && let Some(value) = &assign.value
        {
            self.assigned(&assign.target, value);
        } else if let Stmt::FunctionDef(function) = stmt {
            self.own.insert(function.name.as_str());
            self.bind(function.name.as_str());
        } else if let Stmt::ClassDef(class) = stmt {
            self.own.insert(class.name.as_str());
            self.bind(class.name.as_str());
        }
        walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        if let Expr::Named(named) = expr {
            self.assigned(&named.target, &named.value);
        }
        if let Expr::Name(name) = expr
            && name.ctx != ExprContext::Load
        {
            self.bind(name.id.as_str());
        }
        walk_expr(self, expr);
    }

    fn visit_parameter(&mut self, parameter: &'a Parameter) {
        self.bind(parameter.name.as_str());
        walk_parameter(self, parameter);
    }
}
