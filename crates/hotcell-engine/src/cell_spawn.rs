//! Makes a cell.

use hotcell_model::{
    Cell, CellId, CellLock, CellRef, CellSpawn, CellSpec, CellState, Error, ErrorCode, ExecFilter,
    HOST_IMAGE, Keep, Limits, Network, Result, SecretGrant, StoredCell, Tenant, Tenants, Timestamp,
    Workspace,
};

use crate::cell_remove::Busy;
use crate::cell_standing::Standing;
use crate::default_cell::check_workspace;
use crate::new_id::new_cell_id;
use crate::pool::Pooled;
use crate::site::{Made, Site};
use crate::spawn_key::{ClaimedId, Origin, SpawnKey, Stands};
use crate::{check, fingerprint};

/// After so many cells of the pool that were not well one is made anew.
const UNWELL: u32 = 2;
/// Each further one means that another process made or ended a cell of that name in between.
const ATTEMPTS: u32 = 20;

/// Makes a cell, or answers with the one that the key or the alias stands for.
pub(crate) async fn cell_spawn(site: &Site, tenant: &Tenant, request: CellSpawn) -> Result<Cell> {
    check::cell_spawn(&request)?;
    let spawn = Spawn::plan(site, tenant, &request).await?;
    let mut unwell = 0;
    for _ in 0..ATTEMPTS {
        // A key goes before an alias: the cell that it stands for may be the one that has it.
        if request.idempotency_key.is_none()
            && let Some(cell) = spawn.find_by_alias().await?
        {
            return Ok(cell);
        }
        let pooled = match unwell < UNWELL {
            true => spawn.take_pooled().await?,
            false => None,
        };
        let made = match pooled {
            Some(pooled) => {
                unwell += 1;
                spawn.give_out(pooled).await?
            }
            None => {
                let claimed = spawn.key.claim().await?;
                let lock = site.store.lock_cell(&claimed.id).await?;
                spawn.make_or_find(&claimed, lock).await?
            }
        };
        if let Some(cell) = made {
            return Ok(cell);
        }
    }
    Err(Error::unavailable("other processes make and end cells of the same name all the time")
        .hint("choose another alias"))
}

/// Whether a cell goes with the command that it was made for.
fn is_for_one_command(spec: &CellSpec) -> bool {
    match spec.keep {
        Keep::Holder | Keep::Exec => true,
        Keep::Always | Keep::Server | Keep::Pool | Keep::Ttl => false,
    }
}

/// Whether a cell ends without somebody who holds it.
fn is_held(spec: &CellSpec) -> bool {
    match spec.keep {
        Keep::Holder | Keep::Server | Keep::Pool => true,
        Keep::Always | Keep::Exec | Keep::Ttl => false,
    }
}

pub(crate) struct Spawn<'a> {
    site: &'a Site,
    tenant: &'a Tenant,
    request: &'a CellSpawn,
    key: SpawnKey<'a>,
    driver: &'a str,
    /// What it begins with.
    image: String,
    limits: Limits,
    workspace: Option<Workspace>,
    network: Network,
    secrets: Vec<SecretGrant>,
}

impl<'a> Spawn<'a> {
    pub(crate) async fn plan(
        site: &'a Site,
        tenant: &'a Tenant,
        request: &'a CellSpawn,
    ) -> Result<Self> {
        let driver = site.named_or_default(request.driver.as_deref())?;
        let image = match request.image.as_str() {
            HOST_IMAGE => driver.usual_image().unwrap_or(HOST_IMAGE),
            named => named,
        };
        site.allowed_image(image)?;
        let image = image.to_owned();
        let capabilities = driver.capabilities_on(&request.on).await?;
        let machine = &capabilities.machine;
        let limits = request.limits.or_usual(&site.settings.usual_limits, machine);
        let limits = limits.resolve(machine)?;
        check::enforceable(&request.limits, &capabilities)?;
        let workspace = site.allowed_workspace(request, &**driver).await?;
        let network = site.allowed_network(&request.network, &**driver)?;
        let secrets = site.granted(tenant, &request.secrets, &**driver).await?;
        let driver = driver.name();
        let fingerprint = fingerprint::of_spawn(request);
        let key = SpawnKey::new(site, tenant, request.idempotency_key.as_deref(), fingerprint);
        Ok(Self { site, tenant, request, key, driver, image, limits, workspace, network, secrets })
    }

    /// What has to be the same of a cell for it to be given out as the one that is asked for.
    pub(crate) fn shape(&self) -> Result<String> {
        Ok(self.spec(new_cell_id()?).shape())
    }

    /// A cell that was made ahead of need and can be the one that is asked for. A key stands for an id
    /// before there is a cell: what has one is made anew.
    async fn take_pooled(&self) -> Result<Option<Pooled>> {
        match self.key.is_given() {
            true => Ok(None),
            false => self.site.take_pooled(&self.spec(new_cell_id()?)).await,
        }
    }

    /// Gives such a cell out. `None` when it has to be looked at anew: another process has the alias, or
    /// the cell was not well.
    async fn give_out(&self, pooled: Pooled) -> Result<Option<Cell>> {
        self.site.check_disk_room().await?;
        self.site.check_disk(self.tenant).await?;
        let spec = self.spec(pooled.cell.spec.id.clone());
        let given = match self.site.assign(pooled, spec).await {
            Ok(Some(given)) => given,
            Err(error) if error.code != ErrorCode::Conflict => return Err(error),
            Ok(None) | Err(_) => return Ok(None),
        };
        if is_held(&given.spec) {
            self.site.hold_cell(&given.spec).await?;
        }
        Ok(Some(Cell::from_spec(&given.spec, CellState::Ready, given.isolation)))
    }

    /// `None` when another process came in between and it has to be looked at anew.
    async fn make_or_find(
        &self,
        claimed: &ClaimedId,
        lock: Box<dyn CellLock>,
    ) -> Result<Option<Cell>> {
        if self.key.is_given() {
            match self.key.look(claimed).await? {
                Stands::ForNothing => {}
                Stands::Otherwise => return Ok(None),
                Stands::For(stored) => {
                    drop(lock);
                    return match self.answer(&stored).await {
                        // It turned out to be over, and is ended in the index now.
                        Err(error) if error.code == ErrorCode::NotFound => Ok(None),
                        answered => answered.map(Some),
                    };
                }
                Stands::ForEnded(stored) if is_for_one_command(&stored.spec) => {
                    return self.answer_ended(&stored).await;
                }
                Stands::ForEnded(_) => return Err(self.key.has_ended(&claimed.id)),
            }
        }
        if self.key.is_given()
            && let Some(cell) = self.find_by_alias().await.transpose()
        {
            self.give_up(&claimed.id).await?;
            return cell.map(Some);
        }
        let made = self.make(claimed, lock).await;
        if !matches!(made, Ok(Some(_))) {
            self.key.release(&claimed.id).await?;
        }
        made
    }

    async fn make(&self, claimed: &ClaimedId, lock: Box<dyn CellLock>) -> Result<Option<Cell>> {
        self.site.check_disk_room().await?;
        self.site.check_disk(self.tenant).await?;
        if self.network != Network::None {
            self.site.check_egress(self.tenant).await?;
        }
        let made = self.site.make_cell_dir(&claimed.id, self.tenant)?;
        if made == Made::Existed && claimed.origin == Origin::Fresh {
            return Ok(None);
        }
        let cell = StoredCell {
            spec: self.spec(claimed.id.clone()),
            isolation: None,
            ended_at: None,
            kept: false,
        };
        if let Err(error) = self.site.store.insert_cell(&cell).await {
            self.give_up(&claimed.id).await?;
            // Somebody took the alias after it was found free: look at whose it is.
            return if error.code == ErrorCode::Conflict { Ok(None) } else { Err(error) };
        }
        let isolation = match self.site.start_cell(&cell, lock).await {
            Ok((isolation, _lock)) => isolation,
            Err(error) => {
                self.undo(&cell.spec).await;
                return Err(error);
            }
        };
        if is_held(&cell.spec) {
            self.site.hold_cell(&cell.spec).await?;
        }
        Ok(Some(Cell::from_spec(&cell.spec, CellState::Ready, Some(isolation))))
    }

    /// The cell that has the alias, if it may be the answer; a conflict if it may not.
    async fn find_by_alias(&self) -> Result<Option<Cell>> {
        let Some(owner) = self.find_owner_of_alias().await? else { return Ok(None) };
        if !self.request.reuse_alias {
            let alias = owner.spec.alias.as_ref().map(ToString::to_string).unwrap_or_default();
            let message = format!("cell {} has the alias {alias} already", owner.spec.id);
            return Err(Error::conflict(message)
                .hint("use that cell, end it with `hotcell kill`, or choose another alias"));
        }
        match self.answer(&owner).await {
            // It ended while it was being woken: its alias is free.
            Err(error) if error.code == ErrorCode::NotFound => Ok(None),
            answered => answered.map(Some),
        }
    }

    /// The cell that has the alias; one that is over loses it.
    async fn find_owner_of_alias(&self) -> Result<Option<StoredCell>> {
        let Some(alias) = &self.request.alias else { return Ok(None) };
        let Some(owner) = self.site.find_alias(self.tenant, alias).await? else {
            return Ok(None);
        };
        match self.site.standing(&owner).await {
            Standing::Is(_) => Ok(Some(owner)),
            Standing::Over | Standing::Kept(_) => {
                self.site.remove_if_over(&owner, Busy::Wait).await?;
                self.site.find_alias(self.tenant, alias).await
            }
        }
    }

    /// A cell that exists, awake.
    async fn answer(&self, cell: &StoredCell) -> Result<Cell> {
        let by_name = match &cell.spec.alias {
            Some(alias) => CellRef::Alias(alias.clone()),
            None => CellRef::Id(cell.spec.id.clone()),
        };
        check_workspace(&by_name, cell.spec.workspace.as_ref(), self.workspace.as_ref())?;
        self.site.ready_link(&cell.spec).await?;
        if is_held(&cell.spec) {
            self.site.hold_cell(&cell.spec).await?;
        }
        let isolation = match self.site.store.find_cell(&cell.spec.id).await? {
            Some(stored) => stored.isolation,
            None => cell.isolation.clone(),
        };
        let spec = self.site.with_network_in_force(cell).await;
        Ok(Cell::from_spec(&spec, CellState::Ready, isolation))
    }

    /// A cell that was made for one command and has ended: what ran in it is answered from its
    /// records by whoever runs it again with its key. `None`, with the key free, when nothing ran.
    async fn answer_ended(&self, cell: &StoredCell) -> Result<Option<Cell>> {
        let any = ExecFilter {
            tenants: Tenants::All,
            cell: Some(cell.spec.id.clone()),
            status: None,
            limit: 1,
            before: None,
        };
        if self.site.store.list_execs(&any).await?.is_empty() {
            self.key.release(&cell.spec.id).await?;
            return Ok(None);
        }
        Ok(Some(Cell::from_spec(&cell.spec, CellState::Stopped, cell.isolation.clone())))
    }

    /// Leaves nothing of a cell that was never there.
    async fn give_up(&self, id: &CellId) -> Result<()> {
        self.key.release(id).await?;
        self.site.remove_cell_dir(id).await?;
        self.site.store.delete_cell(id).await
    }

    /// Leaves nothing of a cell that could not be started but the note that it ended.
    async fn undo(&self, spec: &CellSpec) {
        let undo = async {
            let _lock = self.site.store.lock_cell(&spec.id).await?;
            if self.site.has_supervisor(spec).await.unwrap_or(false) {
                // Somebody who knows its name was luckier in between.
                return Ok(());
            }
            let driver = self.site.driver(&spec.driver)?;
            driver.stop(&spec.id).await?;
            driver.remove(&spec.id).await?;
            if spec.keep == Keep::Pool {
                // Nobody asked for it, and nobody asks what became of it.
                self.site.store.delete_cell(&spec.id).await?;
            } else {
                self.site.store.end_cell(&spec.id, Timestamp::now()).await?;
            }
            self.site.remove_cell_dir(&spec.id).await
        };
        if let Err(error) = undo.await {
            tracing::warn!(cell = %spec.id, %error, "something is left of a cell that did not start");
        }
    }

    fn spec(&self, id: CellId) -> CellSpec {
        let (request, settings) = (self.request, &self.site.settings);
        let default_ttl = match request.keep {
            Keep::Ttl | Keep::Server => Some(settings.default_ttl_s),
            Keep::Always | Keep::Holder | Keep::Pool | Keep::Exec => None,
        };
        CellSpec {
            id,
            tenant: self.tenant.clone(),
            alias: request.alias.clone(),
            driver: self.driver.to_owned(),
            image: self.image.clone(),
            keep: request.keep,
            ttl_s: request.ttl_s.or(default_ttl),
            idle_ttl_s: request.idle_ttl_s,
            sleep_after_s: settings.sleep_after_s,
            orphan_grace_s: settings.orphan_grace_s,
            limits: self.limits,
            max_running: settings.max_running,
            output_bytes: settings.output_bytes,
            sessions: settings.sessions,
            network: self.network.clone(),
            workspace: self.workspace.clone(),
            env: request.env.clone(),
            secrets: self.secrets.clone(),
            checkpoint_before: request.checkpoint_before,
            on: request.on.clone(),
            labels: request.labels.clone(),
            created_at: Timestamp::now(),
        }
    }
}
