//! The toolbox on a catalog as large as real ones, and on one that means harm, with real languages.

mod fixture;
mod search;
mod tokens;
