//! What stands at `/tools` of cells, and that it stays as the lists of servers are.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hotcell_model::{Result, StoredCell, Tenant, Tenants};
use hotcell_policy::Policy;
use hotcell_toolbox::{Observations, ToolKey, ToolTree};
use tokio::time::sleep;

use crate::fault;
use crate::policies::told_of_tool;
use crate::site::Site;
use crate::toolbox::{Shelf, Toolbox};
use crate::tree_files::{INDEX, TreeFiles, TreeSource};

/// Trees are written no more often than this: a server may change its list all the time.
const APART: Duration = Duration::from_millis(500);
/// How often it is looked for what nobody tells of: other rules, trees that another process made,
/// servers that could not be listed.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// What the tree of a tenant is made of.
#[derive(Debug, Clone)]
struct Content {
    shelf: Arc<Shelf>,
    observations: Observations,
    /// The rules that callers obey.
    policy: Option<Arc<Policy>>,
}

impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        let same_rules = match (&self.policy, &other.policy) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        same_rules
            && Arc::ptr_eq(&self.shelf, &other.shelf)
            && self.observations == other.observations
    }
}

impl Content {
    fn tree<T>(&self, look: impl FnOnce(&ToolTree<'_>) -> T) -> T {
        let policy = |key: &ToolKey| told_of_tool(self.policy.as_deref(), &self.shelf, key);
        look(&ToolTree::new(&self.shelf.catalog, &self.observations, &policy))
    }
}

impl TreeSource for Content {
    fn paths(&self) -> Vec<String> {
        let mut paths = self.tree(|tree| tree.paths());
        paths.retain(|path| path != INDEX);
        // The lists of a server's tools before what there is about each.
        paths.sort_by_key(|path| !ToolTree::is_list(path));
        paths
    }

    fn read(&self, path: &str) -> Option<String> {
        self.tree(|tree| tree.read(path))
    }

    fn index(&self, left_out: usize) -> String {
        let mut text = self.tree(|tree| tree.read(INDEX)).unwrap_or_default();
        let unlisted = self.shelf.unlisted();
        if self.shelf.catalog.servers().is_empty() && unlisted.is_empty() {
            text.push_str(
                "There are none: the operator declares servers as [toolbox.NAME] in hotcell.toml.\n",
            );
        }
        if !unlisted.is_empty() {
            let _ = writeln!(text, "\nNothing is known of the tools of: {}.", unlisted.join(", "));
        }
        if left_out > 0 {
            let _ = writeln!(
                text,
                "\n{left_out} files had no room here. `tool_search` finds their tools, and they can \
                 be called."
            );
        }
        text
    }
}

impl Site {
    fn tree_files(&self) -> TreeFiles {
        TreeFiles::at(self.tools_dir())
    }

    /// The rules that calls of tools from cells obey, whoever had the code run.
    pub(crate) fn rules_of_tools(&self) -> Option<Arc<Policy>> {
        self.rules.as_ref().map(|rules| rules.policies.in_force())
    }

    /// The directory that cells of a tenant see at `/tools`. If there is none it is made, of what
    /// is known already: no server is started for it.
    pub(crate) async fn tools_of(&self, tenant: &Tenant) -> Result<PathBuf> {
        let files = self.tree_files();
        if !files.is_there(tenant) {
            let (shelf, observations) = match &self.toolbox {
                Some(toolbox) => (toolbox.known_shelf().await?, toolbox.seen_by(tenant)),
                None => (Arc::new(Shelf::empty()), Observations::default()),
            };
            let content = Content { shelf, observations, policy: self.rules_of_tools() };
            write(&files, tenant, content).await?;
            // There may be more to tell by now.
            if let Some(toolbox) = &self.toolbox {
                toolbox.learned.notify_one();
            }
        }
        Ok(files.directory(tenant))
    }

    /// Keeps every tenant's tree as the lists of servers are, and makes this tenant's at once.
    pub(crate) async fn keep_tools_shown(&self, home: &Tenant) {
        let mut shown = BTreeMap::new();
        let Some(toolbox) = &self.toolbox else {
            // Servers may have been declared before.
            return self.show_to_all(&Arc::new(Shelf::empty()), &mut shown).await;
        };
        if let Err(error) = self.tools_of(home).await {
            tracing::warn!(%error, "the tree of tools cannot be written");
        }
        loop {
            let shelf = match toolbox.shelf().await {
                Ok(shelf) => shelf,
                Err(error) => {
                    tracing::warn!(%error, "the lists of servers cannot be read");
                    sleep(LOOK_AGAIN).await;
                    continue;
                }
            };
            self.show_to_all(&shelf, &mut shown).await;
            sleep(APART).await;
            tokio::select! {
                () = toolbox.changed_since(&shelf) => {}
                () = toolbox.learned.notified() => {}
                () = sleep(LOOK_AGAIN) => {}
            }
        }
    }

    /// Writes the trees of all tenants that have one, as far as they are different from what was
    /// written here last. What cannot be written is tried again the next time.
    async fn show_to_all(&self, shelf: &Arc<Shelf>, shown: &mut BTreeMap<Tenant, Content>) {
        let files = self.tree_files();
        let listing = files.clone();
        let listed = fault::blocking(move || {
            listing.tenants().map_err(|error| fault::io("list the trees of tools", &error))
        });
        let tenants = match listed.await {
            Ok(tenants) => tenants,
            Err(error) => return tracing::warn!(%error, "the trees of tools are left as they are"),
        };
        let policy = self.rules_of_tools();
        for tenant in tenants {
            let observations =
                self.toolbox.as_ref().map(|toolbox| Toolbox::seen_by(toolbox, &tenant));
            let content = Content {
                shelf: Arc::clone(shelf),
                observations: observations.unwrap_or_default(),
                policy: policy.clone(),
            };
            if shown.get(&tenant) == Some(&content) {
                continue;
            }
            match self.show(&files, &tenant, content.clone()).await {
                Ok(()) => drop(shown.insert(tenant, content)),
                Err(error) => tracing::warn!(%error, "the tree of tools cannot be written"),
            }
        }
    }

    /// Writes the tree of a tenant and lets its cells look anew.
    async fn show(&self, files: &TreeFiles, tenant: &Tenant, content: Content) -> Result<()> {
        if write(files, tenant, content).await? == 0 {
            return Ok(());
        }
        let mut told = Ok(());
        for StoredCell { spec, .. } in self.list_stored(&Tenants::Of(tenant.clone())).await? {
            let changed = match self.driver(&spec.driver) {
                Ok(driver) => driver.tools_changed(&spec.id).await,
                Err(error) => Err(error),
            };
            // The others are told all the same.
            told = told.and(changed);
        }
        told?;
        let (files, tenant) = (files.clone(), tenant.clone());
        fault::blocking(move || {
            let what = format_args!("note who knows of the tools of tenant {tenant}");
            files.mark_told(&tenant).map_err(|error| fault::io(what, &error))
        })
        .await
    }
}

/// How many changes cells that run do not know of.
async fn write(files: &TreeFiles, tenant: &Tenant, content: Content) -> Result<usize> {
    let (files, tenant) = (files.clone(), tenant.clone());
    fault::blocking(move || {
        let what = format_args!("write the tools of tenant {tenant}");
        files.write(&tenant, &content).map_err(|error| fault::io(what, &error))
    })
    .await
}
