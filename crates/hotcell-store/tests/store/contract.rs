//! The contract of every store, on SQLite.

use std::sync::Arc;

use hotcell_model::Store;
use hotcell_store::SqliteStore;
use hotcell_testkit::store_contract::{StorePlace, run_store_contract};

#[tokio::test]
async fn sqlite_keeps_the_store_contract() -> anyhow::Result<()> {
    run_store_contract(|| {
        let directory = tempfile::tempdir()?;
        Ok(StorePlace::new(move || {
            Ok(Arc::new(SqliteStore::open(directory.path())?) as Arc<dyn Store>)
        }))
    })
    .await
}
