//! Calls as traces for a collector of OpenTelemetry, for who wants them.

#[cfg(not(feature = "otlp"))]
mod absent;
mod collector;
#[cfg(feature = "otlp")]
mod exporter;
#[cfg(feature = "otlp")]
mod sending;

#[cfg(test)]
mod collector_tests;
#[cfg(test)]
#[cfg(feature = "otlp")]
mod exporter_tests;

#[cfg(not(feature = "otlp"))]
pub use absent::Traces;
pub use collector::Collector;
#[cfg(feature = "otlp")]
pub use sending::Traces;
