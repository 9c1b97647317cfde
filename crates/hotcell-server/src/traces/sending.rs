//! The way of a span from a call to the thread that sends it.

use std::time::Duration;

use hotcell_model::{Error, Result};
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider,
};
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::registry::LookupSpan;

use super::Collector;
use super::exporter::{Exporter, Tally};

const PROGRAM: &str = "hotcell";
/// Whose spans are sent; other libraries write whole messages into theirs.
const OURS: &str = "hotcell_server";
/// Spans that wait to be sent; more are dropped.
const MOST_WAITING: usize = 2048;
const BATCH: usize = 512;
/// How long a span waits for others at most.
const PAUSE: Duration = Duration::from_secs(1);
/// How long the end of the program waits for what is not sent yet.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Spans on their way to a collector. A call only ever puts its span into a queue that has a bound;
/// a thread of its own sends them.
#[derive(Debug)]
pub struct Traces {
    provider: SdkTracerProvider,
    tally: Tally,
}

impl Traces {
    /// Begins to send to a collector, whether it is there or not.
    ///
    /// # Errors
    /// `unavailable` when the machine gives no more descriptors.
    pub fn start(collector: Collector) -> Result<Self> {
        let tally = Tally::default();
        let exporter = Exporter::new(collector, tally.clone()).map_err(|error| {
            Error::unavailable(format!("traces cannot be sent: {error}"))
                .hint("raise the limit of open files, or leave serve.otlp out")
        })?;
        // Everything is said here: what is left out would be read from the environment.
        let waiting = BatchConfigBuilder::default()
            .with_max_queue_size(MOST_WAITING)
            .with_max_export_batch_size(BATCH)
            .with_scheduled_delay(PAUSE)
            .build();
        let processor = BatchSpanProcessor::builder(exporter).with_batch_config(waiting).build();
        let program = Resource::builder_empty()
            .with_service_name(PROGRAM)
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        let provider = SdkTracerProvider::builder()
            .with_span_processor(processor)
            .with_sampler(Sampler::AlwaysOn)
            .with_resource(program)
            .build();
        Ok(Self { provider, tally })
    }

    /// What takes the spans of calls out of the log.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        let ours = filter_fn(|metadata| metadata.is_span() && metadata.target().starts_with(OURS));
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer(PROGRAM))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_filter(ours.with_max_level_hint(LevelFilter::ERROR))
    }

    /// Sends what is left, for as long as the end of a program may be kept waiting.
    pub fn end(self) {
        if let Err(error) = self.provider.shutdown_with_timeout(LAST_WORDS) {
            tracing::debug!(%error, "the last spans are given up");
        }
        self.tally.tell();
    }
}
