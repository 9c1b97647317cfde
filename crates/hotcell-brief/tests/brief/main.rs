//! What is shown, held against the tokenizer of real models.

#![expect(clippy::unwrap_used, reason = "a corpus that is wrong is a failed test")]

mod corpus;
mod estimate;
mod shown;
