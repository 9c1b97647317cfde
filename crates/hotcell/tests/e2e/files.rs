//! The files of cells at the command line.
