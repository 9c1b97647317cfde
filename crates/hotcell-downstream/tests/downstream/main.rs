//! Servers of tools as they are, and as they should not be.

#![cfg(test)]

mod http;
mod misbehaving;
mod real;
mod world;
