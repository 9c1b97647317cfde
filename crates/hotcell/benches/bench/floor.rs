//! The floor program: made by the C compiler at the start, and asked over its pipes.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::load::{Load, Worker};
use crate::oneshot::program;

/// A running floor program.
#[derive(Debug)]
pub(crate) struct Floor {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Worker for Floor {
    /// Each call runs `true`.
    fn work(&mut self, load: Load) -> Result<Vec<Duration>> {
        let mut asked = Vec::with_capacity(load.calls);
        while asked.len() < load.at_once.min(load.calls) {
            asked.push(self.ask(asked.len())?);
        }
        let mut took = Vec::with_capacity(load.calls);
        let mut line = String::new();
        while took.len() < load.calls {
            line.clear();
            self.answers.read_line(&mut line).context("read from the floor program")?;
            let number = line.trim_end().strip_suffix(" 0 0").and_then(|text| text.parse().ok());
            let began = number.and_then(|number: usize| asked.get(number));
            let began = began.with_context(|| format!("the floor program answered {line:?}"))?;
            took.push(began.elapsed());
            if asked.len() < load.calls {
                asked.push(self.ask(asked.len())?);
            }
        }
        Ok(took)
    }
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

    /// Asks for one call; when.
    fn ask(&mut self, number: usize) -> Result<Instant> {
        let question = format!("{number} true\n");
        let now = Instant::now();
        self.questions.write_all(question.as_bytes()).context("ask the floor program")?;
        Ok(now)
    }

    /// Ends the program.
    pub(crate) fn stop(self) -> Result<()> {
        let Self { mut child, questions, .. } = self;
        drop(questions);
        child.wait().context("wait for the floor program")?;
        Ok(())
    }
}
