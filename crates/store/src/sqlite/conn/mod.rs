//! Opening and locking the database file, authorization, sessions, error classification and value conversion.

pub(crate) mod authorizer;
pub(crate) mod connection;
pub(crate) mod error;
pub(crate) mod lock;
pub(crate) mod permissions;
pub(crate) mod probe;
pub(crate) mod readers;
pub(crate) mod session;
pub(crate) mod value;
