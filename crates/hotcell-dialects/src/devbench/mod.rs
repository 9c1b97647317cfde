//! The tools of MCP DevBench: containers, commands in them, and their workspaces.
//!
//! A container is a cell. What is given to a tool stands in one object, `input_data`.

mod cells;
mod errors;
mod execs;
mod files;
mod inputs;
mod tools;

use hotcell_model::{
    Collect, Collectable, Error, Network, PolicyCheck, PolicyDecision, Probe, Reconcile, Result,
};
use rmcp::model::{CallToolResult, JsonObject, Tool};
use serde_json::{Value, json};

pub use self::cells::LABEL;
use self::errors::{About, Refused};
use crate::as_meant::as_meant;
use crate::dialect::{Dialect, ToolCall};
use crate::talk::Asking;
use crate::tool::{answer, read};

/// What an operator says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DevbenchSettings {
    /// What containers can reach.
    pub network: Network,
    /// How much content of files a call takes or gives at most.
    pub file_bytes: u64,
}

/// The dialect.
#[derive(Debug)]
pub struct Devbench {
    settings: DevbenchSettings,
    tools: Vec<Tool>,
}

impl Devbench {
    /// With what the operator says.
    #[must_use]
    pub fn new(settings: DevbenchSettings) -> Self {
        Self { settings, tools: tools::all() }
    }
}

impl Dialect for Devbench {
    fn tools(&self) -> &[Tool] {
        &self.tools
    }

    fn find(&self, name: &str) -> Option<&Tool> {
        let name = tools::wire_name(name);
        self.tools.iter().find(|tool| tool.name == name)
    }

    fn has_default_cell(&self) -> bool {
        false
    }

    fn refusal_number(&self, status: u16, usual: i32) -> i32 {
        errors::of_status(status).unwrap_or(usual)
    }

    fn call(&self, tool: &str, arguments: JsonObject) -> Result<ToolCall> {
        let Some(Tool { name: tool, input_schema, .. }) = self.find(tool).cloned() else {
            return Err(Error::not_found(format!("Unknown tool: '{tool}'")));
        };
        let settings = self.settings.clone();
        // What is wrong with the arguments is told as an error, too, and not as a result.
        Ok(ToolCall::Talks(Box::new(move |asking| {
            let bench = Bench { asking, settings };
            Box::pin(async move {
                let told =
                    async { bench.answer(&tool, input_data(&input_schema, arguments)?).await };
                told.await.map_err(Refused::told)
            })
        })))
    }
}

/// What a tool was given. The original's documents write it without the object around it; clients of
/// the original may send that object as text.
fn input_data(schema: &JsonObject, mut arguments: JsonObject) -> Result<JsonObject> {
    let given = match arguments.remove("input_data") {
        Some(Value::String(text)) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        Some(given) => given,
        None => Value::Null,
    };
    let input = match given {
        Value::Object(input) => input,
        Value::Null => arguments,
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return Err(Error::invalid("Input validation error: input_data has to be an object"));
        }
    };
    Ok(match schema.get("properties").and_then(|all| all["input_data"].as_object()) {
        Some(schema) => as_meant(schema, input),
        None => input,
    })
}

/// What a tool is answered with.
type Answered = std::result::Result<CallToolResult, Refused>;

/// What a caller has to do with.
struct Bench {
    asking: Box<dyn Asking>,
    settings: DevbenchSettings,
}

impl Bench {
    async fn answer(&self, tool: &str, input: JsonObject) -> Answered {
        match tool {
            tools::HEALTH => self.health().await,
            tools::SPAWN => self.spawn(read(input)?).await,
            tools::ATTACH => self.attach(read(input)?).await,
            tools::KILL => self.kill(read(input)?).await,
            tools::LIST_CONTAINERS => self.list_containers(read(input)?).await,
            tools::CONTAINER_STATS => self.container_stats(read(input)?).await,
            tools::CREATE_SNAPSHOT => self.create_snapshot(read(input)?).await,
            tools::LIST_SNAPSHOTS => self.list_snapshots(read(input)?).await,
            tools::DELETE_SNAPSHOT => self.delete_snapshot(read(input)?).await,
            tools::SPAWN_FROM_SNAPSHOT => self.spawn_from_snapshot(read(input)?).await,
            tools::EXEC_START => self.exec_start(read(input)?).await,
            tools::EXEC_POLL => self.exec_poll(read(input)?).await,
            tools::EXEC_CANCEL => self.exec_cancel(read(input)?).await,
            tools::EXEC_SIGNAL => self.exec_signal(read(input)?).await,
            tools::LIST_EXECS => self.list_execs().await,
            tools::FS_READ => self.fs_read(read(input)?).await,
            tools::FS_WRITE => self.fs_write(read(input)?).await,
            tools::FS_DELETE => self.fs_delete(read(input)?).await,
            tools::FS_STAT => self.fs_stat(read(input)?).await,
            tools::FS_LIST => self.fs_list(read(input)?).await,
            tools::FS_BATCH => self.fs_batch(read(input)?).await,
            tools::FS_TAR_READ => self.fs_tar_read(read(input)?).await,
            tools::FS_TAR_WRITE => self.fs_tar_write(read(input)?).await,
            tools::POLICY_CHECK => self.policy_check(read(input)?).await,
            tools::RECONCILE => self.reconcile().await,
            tools::GARBAGE_COLLECT => self.garbage_collect().await,
            tools::METRICS => self.metrics().await,
            tools::SYSTEM_STATUS => self.system_status().await,
            other => Err(Error::internal(format!("nothing answers {other}")).into()),
        }
    }

    async fn health(&self) -> Answered {
        Ok(answer(&self.standing().await?))
    }

    /// Whether containers can be had. What runs them need not be Docker.
    async fn standing(&self) -> std::result::Result<Value, Refused> {
        let probed = self.asking.ask(Probe).await.map_err(About::Rest.refused())?;
        let driver = probed.drivers.first();
        let is_usable = driver.is_some_and(|driver| driver.error.is_none());
        Ok(json!({
            "status": if is_usable && probed.store.is_none() { "healthy" } else { "degraded" },
            "docker_connected": is_usable,
            "database_initialized": probed.store.is_none(),
            "version": env!("CARGO_PKG_VERSION"),
            "driver": driver.map(|driver| &driver.driver),
        }))
    }

    async fn system_status(&self) -> Answered {
        let mut status = self.standing().await?;
        let (containers, attachments) = self.count().await?;
        status["active_containers"] = containers.into();
        status["active_attachments"] = attachments.into();
        Ok(answer(&status))
    }

    async fn metrics(&self) -> Answered {
        let metrics = self.asking.metrics().await.map_err(About::Rest.refused())?;
        Ok(answer(&json!({ "metrics": metrics })))
    }

    async fn reconcile(&self) -> Answered {
        let done = self.asking.ask(Reconcile).await.map_err(About::Rest.refused())?;
        Ok(answer(&json!({
            "discovered": done.discovered,
            "adopted": done.adopted,
            "cleaned_up": done.cleaned_up,
            "orphaned": done.orphaned,
            "errors": done.errors.len(),
        })))
    }

    async fn garbage_collect(&self) -> Answered {
        let done = self.asking.ask(Collect { dry_run: false }).await;
        let done = done.map_err(About::Rest.refused())?;
        let count = |kinds: &[Collectable]| -> u64 {
            let removed = done.removed.iter().filter(|removed| kinds.contains(&removed.kind));
            removed.map(|removed| removed.count).sum()
        };
        Ok(answer(&json!({
            "containers_removed": count(&[Collectable::Cells]),
            "execs_cleaned": count(&[Collectable::Logs, Collectable::Records]),
            "attachments_cleaned": count(&[Collectable::Attachments]),
        })))
    }

    async fn policy_check(&self, input: inputs::PolicyCheck) -> Answered {
        let check =
            PolicyCheck { checked: input.checked()?, as_root: input.as_root, profile: None };
        let verdict = self.asking.ask(check).await.map_err(About::Rest.refused())?;
        Ok(answer(&json!({
            "allowed": verdict.decision == PolicyDecision::Allow,
            "decision": verdict.decision,
            "rule": verdict.rule,
            "reason": verdict.reason,
        })))
    }
}
