//! Tests of both ends.
