//! The toolbox on a catalog as large as real ones, and on one that means harm, with real languages.

mod fixture;
mod hostile;
mod languages;
mod search;
mod tokens;
