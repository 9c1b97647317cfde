//! The idempotency key of a request that makes a cell: it stands for one cell of its tenant.

use hotcell_model::{CellId, Claim, Error, KeyScope, Result, StoredCell, Tenant, Timestamp};

use crate::new_id::new_cell_id;
use crate::site::Site;

/// How long an idempotency key stands.
pub(crate) const KEY_KEEP_S: u64 = 24 * 3600;

/// A key, or that there is none.
pub(crate) struct SpawnKey<'a> {
    site: &'a Site,
    tenant: &'a Tenant,
    key: Option<&'a str>,
    /// What the request asks for.
    fingerprint: u64,
}

/// The id that the cell is to have.
pub(crate) struct ClaimedId {
    pub(crate) id: CellId,
    pub(crate) origin: Origin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Nobody else has it.
    Fresh,
    /// An earlier request with the same key has it too.
    Earlier,
}

/// What a key stands for.
pub(crate) enum Stands {
    /// A cell that is to be made.
    ForNothing,
    /// A cell that is there.
    For(Box<StoredCell>),
    /// A cell that has ended.
    ForEnded(Box<StoredCell>),
    /// Another process came in between: it has to be claimed anew.
    Otherwise,
}

impl<'a> SpawnKey<'a> {
    pub(crate) fn new(
        site: &'a Site,
        tenant: &'a Tenant,
        key: Option<&'a str>,
        fingerprint: u64,
    ) -> Self {
        Self { site, tenant, key, fingerprint }
    }

    pub(crate) fn is_given(&self) -> bool {
        self.key.is_some()
    }

    /// An id for the cell: that of an earlier request with this key, or a new one.
    pub(crate) async fn claim(&self) -> Result<ClaimedId> {
        let fresh = new_cell_id()?;
        match self.claim_for(&fresh).await? {
            None | Some(Claim::New) => Ok(ClaimedId { id: fresh, origin: Origin::Fresh }),
            Some(Claim::Taken { value, fingerprint }) => {
                if fingerprint != self.fingerprint {
                    return Err(Error::conflict(format!(
                        "the idempotency key {:?} was used for another cell, {value}",
                        self.shown()
                    ))
                    .hint("use another key, or ask for exactly the same"));
                }
                Ok(ClaimedId { id: value.parse()?, origin: Origin::Earlier })
            }
        }
    }

    /// Claims the key for this id; `None` without a key.
    async fn claim_for(&self, id: &CellId) -> Result<Option<Claim>> {
        let Some(key) = self.key else { return Ok(None) };
        let expires = Timestamp::now().plus_seconds(KEY_KEEP_S);
        let (store, scope) = (&self.site.store, self.scope());
        store.claim_key(&scope, key, id.as_str(), self.fingerprint, expires).await.map(Some)
    }

    /// What the key stands for, with the lock of the cell held: nobody is making it, but whoever had
    /// the lock before, with the same key, may have made it or given up.
    pub(crate) async fn look(&self, claimed: &ClaimedId) -> Result<Stands> {
        let claim = self.claim_for(&claimed.id).await?;
        let stored = self.site.store.find_cell(&claimed.id).await?;
        Ok(match (claim, stored) {
            (Some(Claim::Taken { value, .. }), _) if value != claimed.id.as_str() => {
                Stands::Otherwise
            }
            (_, Some(stored)) if stored.ended_at.is_none() => Stands::For(Box::new(stored)),
            (Some(Claim::New), Some(_)) => {
                self.release(&claimed.id).await?;
                Stands::Otherwise
            }
            (_, Some(stored)) => Stands::ForEnded(Box::new(stored)),
            (_, None) => Stands::ForNothing,
        })
    }

    /// Frees the key, after the cell could not be made.
    pub(crate) async fn release(&self, id: &CellId) -> Result<()> {
        match self.key {
            Some(key) => self.site.store.release_key(&self.scope(), key, id.as_str()).await,
            None => Ok(()),
        }
    }

    /// The error for a key whose cell is over.
    pub(crate) fn has_ended(&self, id: &CellId) -> Error {
        Error::conflict(format!(
            "the idempotency key {:?} stands for cell {id}, which has ended",
            self.shown()
        ))
        .hint("use another key to make another cell")
    }

    fn scope(&self) -> KeyScope {
        KeyScope::Spawn(self.tenant.clone())
    }

    fn shown(&self) -> &str {
        self.key.unwrap_or_default()
    }
}
