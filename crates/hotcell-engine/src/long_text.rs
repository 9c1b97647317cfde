//! Long texts are read on threads of their own, a few at a time: to understand one takes as long as
//! thousands of calls do, and memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use hotcell_model::{Code, Command, Error, ExecRun, Result, Stdin, Tenant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::fault;

/// What is shorter is read at once: it takes less than a millisecond.
const LONG: usize = 8 << 10;
/// How many are read at the same time, of one tenant and of all.
const AT_ONCE: usize = 2;
const AT_ONCE_OF_ALL: usize = 8;

/// The turns of those who want a long text read. Each tenant has its own, and only what has one of
/// these waits for one of those of all, in order: a tenant waits for some texts of each other tenant,
/// however many these have.
#[derive(Debug, Clone)]
pub(crate) struct LongTexts {
    tenants: Arc<Mutex<HashMap<Tenant, Arc<Semaphore>>>>,
    all: Arc<Semaphore>,
}

impl Default for LongTexts {
    fn default() -> Self {
        Self { tenants: Arc::default(), all: Arc::new(Semaphore::new(AT_ONCE_OF_ALL)) }
    }
}

impl LongTexts {
    /// Reads a text where that holds nobody up. Whoever asked may go away: its turn is over when the
    /// text was read.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        tenant: &Tenant,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let own = turn(self.of(tenant)).await?;
        let of_all = turn(Arc::clone(&self.all)).await?;
        fault::blocking(move || {
            let understood = read();
            drop((own, of_all));
            Ok(understood)
        })
        .await
    }

    fn of(&self, tenant: &Tenant) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that nobody waits for or uses are as good as new.
        tenants.retain(|_, turns| Arc::strong_count(turns) > 1);
        let turns = tenants.entry(tenant.clone());
        Arc::clone(turns.or_insert_with(|| Arc::new(Semaphore::new(AT_ONCE))))
    }
}

async fn turn(turns: Arc<Semaphore>) -> Result<OwnedSemaphorePermit> {
    turns.acquire_owned().await.map_err(|_| Error::internal("nobody reads texts any more"))
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

    use tokio::task::JoinSet;
    use tokio::time::timeout;

    use super::*;

    const A_MOMENT: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn whoever_goes_away_has_its_turn_until_the_text_is_read() {
        let (texts, tenant) = (LongTexts::default(), Tenant::default());
        let mut ends = Vec::new();
        for _ in 0..AT_ONCE {
            let (end, ended) = mpsc::sync_channel::<()>(1);
            timeout(A_MOMENT, texts.read(&tenant, move || ended.recv())).await.unwrap_err();
            ends.push(end);
        }
        timeout(A_MOMENT, texts.read(&tenant, || ())).await.unwrap_err();
        ends.pop();
        texts.read(&tenant, || ()).await.unwrap();
    }

    #[tokio::test]
    async fn a_tenant_with_many_long_texts_holds_up_no_other() {
        let texts = LongTexts::default();
        let [busy, other]: [Tenant; 2] = ["busy", "other"].map(|name| name.parse().unwrap());
        let mut ends = Vec::new();
        let mut reading = JoinSet::new();
        for _ in 0..AT_ONCE_OF_ALL + AT_ONCE {
            let (end, ended) = mpsc::sync_channel::<()>(1);
            let (texts, busy) = (texts.clone(), busy.clone());
            reading.spawn(async move {
                texts.read(&busy, move || ended.recv()).await.unwrap().unwrap_err();
            });
            ends.push(end);
        }
        while texts.all.available_permits() > AT_ONCE_OF_ALL - AT_ONCE {
            tokio::task::yield_now().await;
        }
        texts.read(&other, || ()).await.unwrap();
        assert_eq!(texts.all.available_permits(), AT_ONCE_OF_ALL - AT_ONCE);
        drop(ends);
        while let Some(read) = reading.join_next().await {
            read.unwrap();
        }
        texts.read(&other, || ()).await.unwrap();
        assert_eq!(texts.tenants.lock().unwrap().len(), 1, "a tenant that is done is forgotten");
    }
}
