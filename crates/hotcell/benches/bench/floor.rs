//! The floor program: made by the C compiler at the start, and asked over its pipes.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use anyhow::{Context, Result, ensure};

use crate::oneshot::program;

/// A running floor program.
#[derive(Debug)]
pub(crate) struct Floor {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// Compiles the floor program into `directory`.
pub(crate) fn compile(directory: &Path) -> Result<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/bench/floor.c");
    let made = directory.join("floor");
    let status = program("cc").arg("-O2").arg("-o").args([&made, &source]).status();
    ensure!(status.context("run cc")?.success(), "cc cannot compile {}", source.display());
    Ok(made)
}

impl Floor {
    pub(crate) fn start(path: &Path) -> Result<Self> {
        let mut child = program(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start the floor program")?;
        let questions = child.stdin.take().context("the floor program's input")?;
        let answers = child.stdout.take().context("the floor program's output")?;
        Ok(Self { child, questions, answers: BufReader::new(answers) })
    }

    /// Runs `true` as often as `calls` says, with `at_once` under way.
    pub(crate) fn run(&mut self, calls: usize, at_once: usize) -> Result<()> {
        for number in 0..at_once.min(calls) {
            self.ask(number)?;
        }
        let mut line = String::new();
        for answered in 0..calls {
            line.clear();
            self.answers.read_line(&mut line).context("read from the floor program")?;
            ensure!(line.trim_end().ends_with(" 0 0"), "the floor program answered {line:?}");
            if answered + at_once < calls {
                self.ask(answered + at_once)?;
            }
        }
        Ok(())
    }

    fn ask(&mut self, number: usize) -> Result<()> {
        let question = format!("{number} true\n");
        self.questions.write_all(question.as_bytes()).context("ask the floor program")
    }

    /// Ends the program.
    pub(crate) fn stop(self) -> Result<()> {
        let Self { mut child, questions, .. } = self;
        drop(questions);
        child.wait().context("wait for the floor program")?;
        Ok(())
    }
}
