//! Commands with commands in them, and functions.

use super::characters::{ends_word, in_name, starts_name};
use super::parser::{Parser, Read};
use super::syntax::{Command, Compound, Script};
use super::words::Context;

impl Parser<'_> {
    pub(super) fn with_redirects(&mut self, compound: Compound) -> Read<Command> {
        let mut redirects = Vec::new();
        loop {
            self.skip_blanks();
            match self.redirect()? {
                Some(redirect) => redirects.push(redirect),
                None => return Ok(Command::Compound(compound, redirects)),
            }
        }
    }

    pub(super) fn parenthesis(&mut self) -> Read<Command> {
        if self.peek_second() == Some(b'(') && self.bash() && self.is_arithmetic("((")? {
            self.take("((");
            let inner = self.arithmetic()?;
            return self.with_redirects(Compound::Arith(inner));
        }
        self.take("(");
        let inner = self.body()?;
        if !self.take(")") {
            return self.fail("`)` is missing");
        }
        self.with_redirects(Compound::Subshell(inner))
    }

    pub(super) fn compound(&mut self, word: &str) -> Read<Command> {
        let compound = match word {
            "{" => {
                let inner = self.body()?;
                self.expect_keyword("}", "`}` is missing")?;
                Compound::Brace(inner)
            }
            "if" => self.conditional()?,
            "while" | "until" => {
                let test = self.body()?;
                let body = self.do_done()?;
                Compound::Loop { test, body }
            }
            "case" => self.case()?,
            "[[" => self.test()?,
            _ => self.for_loop()?,
        };
        self.with_redirects(compound)
    }

    fn conditional(&mut self) -> Read<Compound> {
        let mut branches = Vec::new();
        loop {
            let test = self.body()?;
            self.expect_keyword("then", "`then` is missing")?;
            branches.push((test, self.body()?));
            if self.take_keyword("elif") {
                continue;
            }
            let otherwise = if self.take_keyword("else") { Some(self.body()?) } else { None };
            self.expect_keyword("fi", "`fi` is missing")?;
            return Ok(Compound::If { branches, otherwise });
        }
    }

    fn do_done(&mut self) -> Read<Script> {
        self.skip_lines()?;
        if self.take_keyword("{") {
            self.bash();
            let body = self.body()?;
            self.expect_keyword("}", "`}` is missing")?;
            return Ok(body);
        }
        self.expect_keyword("do", "`do` is missing")?;
        let body = self.body()?;
        self.expect_keyword("done", "`done` is missing")?;
        Ok(body)
    }

    fn for_loop(&mut self) -> Read<Compound> {
        self.skip_blanks();
        if self.peek() == Some(b'(') && self.peek_second() == Some(b'(') {
            if !self.bash() {
                return self.fail("a name is missing");
            }
            self.take("((");
            let head = self.arithmetic()?;
            self.skip_blanks();
            self.take(";");
            let body = self.do_done()?;
            return Ok(Compound::ArithFor { head, body });
        }
        let name = self.plain_name();
        if name.is_empty() {
            return self.fail("a name is missing");
        }
        self.skip_lines()?;
        let mut words = None;
        if self.take_keyword("in") {
            let mut list = Vec::new();
            loop {
                self.skip_blanks();
                match self.peek() {
                    Some(b';') => {
                        self.pos += 1;
                        break;
                    }
                    Some(b'\n') => break,
                    _ => match self.find_word()? {
                        Some(word) => list.push(word),
                        None => return self.fail("unexpected sign in the words of a loop"),
                    },
                }
            }
            words = Some(list);
        } else {
            self.take(";");
        }
        let body = self.do_done()?;
        Ok(Compound::For { name, words, body })
    }

    pub(super) fn plain_name(&mut self) -> String {
        let mut name = String::new();
        while let Some(byte) = self.peek() {
            if !in_name(byte) || (name.is_empty() && !starts_name(byte)) {
                break;
            }
            name.push(char::from(byte));
            self.pos += 1;
        }
        name
    }

    fn case(&mut self) -> Read<Compound> {
        self.skip_blanks();
        let Some(subject) = self.find_word()? else {
            return self.fail("a word is missing");
        };
        self.expect_keyword("in", "`in` is missing")?;
        let mut arms = Vec::new();
        loop {
            self.skip_lines()?;
            if self.take_keyword("esac") {
                return Ok(Compound::Case { subject, arms });
            }
            self.take("(");
            let mut patterns = Vec::new();
            loop {
                self.skip_blanks();
                let Some(pattern) = self.find_word()? else {
                    return self.fail("a pattern is missing");
                };
                patterns.push(pattern);
                self.skip_blanks();
                if self.take(")") {
                    break;
                }
                if !self.take("|") {
                    return self.fail("`)` is missing after a pattern");
                }
            }
            arms.push((patterns, self.list()?));
            self.skip_lines()?;
            if self.take(";;") {
                if self.peek() == Some(b'&') && self.bash() {
                    self.pos += 1;
                }
            } else if self.next_is(";&") {
                if !self.bash() {
                    return self.fail("unexpected `;&`");
                }
                self.take(";&");
            } else {
                self.expect_keyword("esac", "`esac` is missing")?;
                return Ok(Compound::Case { subject, arms });
            }
        }
    }

    fn test(&mut self) -> Read<Compound> {
        let mut words = Vec::new();
        let mut regex_next = false;
        loop {
            self.skip_lines()?;
            let Some(byte) = self.peek() else {
                return self.fail("`]]` is missing");
            };
            if self.next_is("]]") && self.word_ends_after("]]") {
                self.take("]]");
                return Ok(Compound::Test(words));
            }
            if regex_next {
                regex_next = false;
                words.push(self.word_in(Context::Regex)?);
                continue;
            }
            let process = matches!(byte, b'<' | b'>') && self.peek_second() == Some(b'(');
            match byte {
                b'&' | b'|' | b'(' | b')' => self.pos += 1,
                b'<' | b'>' if !process => self.pos += 1,
                b';' => return self.fail("unexpected `;`"),
                _ => {
                    let start = self.pos;
                    words.push(self.word_in(Context::Word)?);
                    regex_next = self.text.get(start..self.pos) == Some("=~");
                }
            }
        }
    }

    pub(super) fn function_keyword(&mut self) -> Read<Command> {
        self.skip_blanks();
        let start = self.pos;
        while self.peek().is_some_and(|byte| !ends_word(byte)) {
            if matches!(self.peek(), Some(b'$' | b'`' | b'"' | b'\'' | b'\\')) {
                return self.fail("the name of a function is not plain");
            }
            self.pos += 1;
        }
        let name = self.text.get(start..self.pos).unwrap_or_default().to_owned();
        if name.is_empty() {
            return self.fail("the name of a function is missing");
        }
        self.skip_blanks();
        if self.take("(") {
            self.skip_blanks();
            if !self.take(")") {
                return self.fail("`)` is missing");
            }
        }
        self.function_body(name)
    }

    pub(super) fn function_body(&mut self, name: String) -> Read<Command> {
        self.skip_lines()?;
        let body = Box::new(self.command()?);
        Ok(Command::Function { name, body })
    }

    pub(super) fn coproc(&mut self) -> Read<Command> {
        self.skip_blanks();
        let before = self.pos;
        let mut variable = None;
        if self.keyword().is_none() {
            let name = self.plain_name();
            self.skip_blanks();
            let starts_compound = self.peek() == Some(b'(')
                || self.keyword().is_some_and(|(word, _)| {
                    matches!(
                        word,
                        "if" | "while" | "until" | "for" | "select" | "case" | "{" | "[["
                    )
                });
            if name.is_empty() || !starts_compound {
                self.pos = before;
            } else {
                variable = Some(name);
            }
        }
        Ok(Command::Coproc(variable, Box::new(self.command()?)))
    }
}
