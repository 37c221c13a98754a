//! Connections: how the file is opened and locked, who may do what on it, and what a fault means.

pub(crate) mod authorizer;
pub(crate) mod connection;
pub(crate) mod error;
pub(crate) mod lock;
pub(crate) mod permissions;
pub(crate) mod probe;
pub(crate) mod readers;
pub(crate) mod session;
pub(crate) mod value;
