//! Long texts are read on threads of their own, a few at a time: to understand one takes as long as
//! thousands of calls do, and memory.

use std::sync::Arc;

use hotcell_model::{Code, Command, Error, ExecRun, Result, Stdin};
use tokio::sync::Semaphore;

use crate::fault;

/// What is shorter is read at once: it takes less than a millisecond.
const LONG: usize = 8 << 10;
/// How many are read at the same time.
const AT_ONCE: usize = 2;

/// The turns of those who want a long text read.
#[derive(Debug, Clone)]
pub(crate) struct LongTexts(Arc<Semaphore>);

impl Default for LongTexts {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }
}

impl LongTexts {
    /// Reads a text where that holds nobody up. Whoever asked may go away: its turn is over when the
    /// text was read.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let turn = Arc::clone(&self.0).acquire_owned().await;
        let turn = turn.map_err(|_| Error::internal("nobody reads texts any more"))?;
        fault::blocking(move || {
            let understood = read();
            drop(turn);
            Ok(understood)
        })
        .await
    }
}

/// Whether it takes long to understand what is run.
pub(crate) fn is_long(run: &ExecRun) -> bool {
    let input = match &run.stdin {
        Stdin::Text(text) => text.len(),
        Stdin::Empty | Stdin::Open => 0,
    };
    let variables: usize = run.env.iter().map(|(name, value)| name.len() + value.len()).sum();
    length_of(&run.command) + input + variables > LONG
}

fn length_of(command: &Command) -> usize {
    match command {
        Command::Shell(text) | Command::Code(Code { text, .. }) => text.len(),
        Command::Argv(words) => words.iter().map(String::len).sum(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const A_MOMENT: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn whoever_goes_away_has_its_turn_until_the_text_is_read() {
        let texts = LongTexts::default();
        let mut ends = Vec::new();
        for _ in 0..AT_ONCE {
            let (end, ended) = mpsc::sync_channel::<()>(1);
            timeout(A_MOMENT, texts.read(move || ended.recv())).await.unwrap_err();
            ends.push(end);
        }
        timeout(A_MOMENT, texts.read(|| ())).await.unwrap_err();
        ends.pop();
        texts.read(|| ()).await.unwrap();
    }
}
