//! Tools of other servers that clients call as they are.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use hotcell_brief::{
    Brief, Parts, ResultContent, ResultPart, ShownResult, Strategy, Text, estimate_tokens,
};
use hotcell_model::{
    Error, ErrorCode, PassedTool, Reply, ToolAnswer, ToolHints, ToolList, ToolRan, ToolRun,
    ToolsListed,
};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use serde_json::Value;

use super::handler::McpHandler;
use super::passed_arguments::{prepare, with_example};
use crate::door::Door;
use hotcell_dialects::{Outcome, Question};

/// What the text of an answer may cost; clients cut what is longer, wherever that is.
const MOST_TOKENS: usize = 8_000;
/// The most bytes of pictures and sounds.
const MOST_MEDIA: usize = 1 << 20;

impl Door {
    /// Whether tools of other servers may be among those of clients.
    pub(crate) fn passes_tools(&self) -> bool {
        self.dialect.passes_tools() && self.may_pass_tools()
    }

    /// The tools of others that are passed through; another list than one that is known is waited for.
    pub(crate) async fn passed_tools(
        &self,
        after: Option<u64>,
        within: Option<Duration>,
    ) -> ToolsListed {
        if !self.passes_tools() {
            return ToolsListed::default();
        }
        let within_ms = within.and_then(|within| u64::try_from(within.as_millis()).ok());
        match self.ask(&self.own_caller(), ToolList { after, within_ms }).await {
            Ok(listed) => listed,
            Err(error) => {
                tracing::warn!(%error, "tools of other servers are not listed");
                ToolsListed::default()
            }
        }
    }
}

/// The tools of others as clients see them, for one that waits so long at most.
pub(super) async fn tools(handler: &McpHandler, most_wait_s: Option<f64>) -> Vec<Tool> {
    let within = most_wait_s.and_then(|wait_s| Duration::try_from_secs_f64(wait_s).ok());
    let listed = handler.door.passed_tools(None, within).await;
    listed.tools.into_iter().map(described).collect()
}

/// Without the operator's word for it, what a server says of its tools is not passed on: clients skip
/// questions for what only reads.
fn described(tool: PassedTool) -> Tool {
    let careful = ToolHints {
        read_only: Some(false),
        destructive: Some(true),
        idempotent: Some(false),
        open_world: Some(true),
    };
    let hints = tool.hints.unwrap_or(careful);
    let annotations = ToolAnnotations::from_raw(
        None,
        hints.read_only,
        hints.destructive,
        hints.idempotent,
        hints.open_world,
    );
    let mut shown =
        Tool::new(Cow::Owned(tool.name), Cow::Owned(tool.description), Arc::new(tool.input_schema));
    shown.title = tool.title;
    shown.with_annotations(annotations)
}

/// A call of a tool by the name under which it is passed through, if there is one.
///
/// The inner error refuses the arguments.
pub(super) async fn call(
    handler: &McpHandler,
    name: &str,
    arguments: &JsonObject,
) -> Option<hotcell_model::Result<Question>> {
    let listed = handler.door.passed_tools(None, None).await;
    let tool = listed.tools.into_iter().find(|tool| tool.name == name)?;
    let from = format!("from tools.{} import {}", tool.server, tool.tool);
    let PassedTool { name, server, tool, input_schema, .. } = tool;
    let arguments = match prepare(&name, &input_schema, arguments.clone()) {
        Ok(arguments) => arguments,
        Err(error) => return Some(Err(error)),
    };
    let request = ToolRun { exec: None, server, tool, arguments }.into();
    let show = Box::new(move |outcome: Outcome| match outcome.reply {
        Ok(Reply::ToolRan(ran)) => Ok(shown(ran, &from)),
        Ok(_) => Err(Error::internal("a tool got the reply to another request")),
        Err(error) if error.code == ErrorCode::Invalid => {
            Err(with_example(&name, &input_schema, error))
        }
        Err(error) => Err(error),
    });
    Some(Ok(Question { request, show: Some(show) }))
}

/// What a client sees of an answer: as it came, or as much of it as a model can use.
fn shown(ran: ToolRan, from: &str) -> CallToolResult {
    let ToolRan { value, failed, answer, .. } = ran;
    let ToolAnswer { content, structured, .. } = match answer {
        Some(answer) => *answer,
        None => ToolAnswer { content: Vec::new(), structured: None, is_error: failed, bytes: 0 },
    };
    let (texts, media): (Vec<Value>, Vec<Value>) =
        content.into_iter().partition(|block| block["type"] == "text");
    let text = |block: &Value| block["text"].as_str().map_or(0, estimate_tokens);
    let cost: usize = texts.iter().map(text).sum();
    let whole = cost + structured.as_ref().map_or(0, |it| estimate_tokens(&it.to_string()));
    let mut blocks = Vec::new();
    let mut kept = None;
    if cost > MOST_TOKENS || (texts.is_empty() && whole > MOST_TOKENS) {
        blocks.push(ContentBlock::text(cut(&value, from)));
    } else {
        blocks.extend(texts.into_iter().map(block));
        kept = structured.filter(|_| whole <= 2 * MOST_TOKENS);
    }
    // A client may show its model nothing else.
    if blocks.is_empty()
        && let Some(kept) = &kept
    {
        blocks.push(ContentBlock::text(kept.to_string()));
    }
    let bytes = media.iter().map(|block| block.to_string().len()).sum::<usize>();
    if bytes > MOST_MEDIA {
        let note = format!("{bytes} bytes of other content are left out; in code_run: {from}");
        blocks.push(ContentBlock::text(note));
    } else {
        blocks.extend(media.into_iter().map(block));
    }
    let mut result = match failed {
        true => CallToolResult::error(blocks),
        false => CallToolResult::success(blocks),
    };
    result.structured_content = kept;
    result
}

/// A block as it came; one of a kind that is not known is shown as the JSON that it is.
fn block(value: Value) -> ContentBlock {
    serde_json::from_value(value.clone()).unwrap_or_else(|_| ContentBlock::text(value.to_string()))
}

/// The beginning, the end and the shape of what is too long.
fn cut(value: &Value, from: &str) -> String {
    let more = format!("code_run with {from}");
    let content = match value {
        Value::String(text) => ResultContent::Text(Text::whole(text)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            ResultContent::Json(value)
        }
    };
    let parts =
        Parts { result: Some(ResultPart { content, more: Some(&more) }), ..Parts::default() };
    let shown = Brief::new(MOST_TOKENS / 2, Strategy::Auto).show(&parts);
    let text = match shown.result {
        Some(ShownResult::Text(text)) => text,
        Some(ShownResult::Json(value)) => value.to_string(),
        None => String::new(),
    };
    format!("{text}\n[cut] all of it: {more}")
}
