//! Connections: how they are made, pooled and kept clean, what a fault means, and how values travel.

pub(crate) mod error;
pub(crate) mod listen;
pub(crate) mod options;
pub(crate) mod pool;
pub(crate) mod scratch;
pub(crate) mod session;
pub(crate) mod value;
