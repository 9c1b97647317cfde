//! The least that a server on the same SDK can do, over both of its transports.

use std::convert::Infallible;
use std::io::{self, Write};
use std::sync::Arc;

use anyhow::Result;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ServerCapabilities,
    ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// The tool that does nothing.
pub(super) const TOOL: &str = "echo";
/// What a server says before its address.
pub(super) const LISTENING: &str = "listening on http://";

#[derive(Debug, Clone)]
struct Echo;

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn call_tool(
        &self,
        _: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        Ok(CallToolResult::success(vec![ContentBlock::text("echo")]).into())
    }
}

/// Serves on standard input and output, by the SDK's own transport.
pub(crate) fn over_stdio() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        Echo.serve(rmcp::transport::stdio_pipes()).await?.waiting().await?;
        Ok(())
    })
}

/// Serves at a free port until it is killed, by the SDK's own transport with nothing around it.
pub(crate) fn over_http() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        writeln!(io::stderr(), "{LISTENING}{}", listener.local_addr()?)?;
        let config = StreamableHttpServerConfig::default().with_json_response(true);
        let sessions = Arc::new(LocalSessionManager::default());
        let transport = StreamableHttpService::new(|| Ok(Echo), sessions, config);
        let mut connections = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let transport = transport.clone();
            let answer = service_fn(move |request| {
                let transport = transport.clone();
                async move { Ok::<_, Infallible>(transport.handle(request).await) }
            });
            let conversation = http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
            connections.spawn(conversation);
        }
    })
}
