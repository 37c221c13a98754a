//! Connection pools, sessions, the LISTEN connection, error classification and value conversion.

pub(crate) mod connect;
pub(crate) mod error;
pub(crate) mod failure;
pub(crate) mod listen;
pub(crate) mod monitor;
pub(crate) mod options;
pub(crate) mod password;
pub(crate) mod pool;
pub(crate) mod pooling;
pub(crate) mod scratch;
pub(crate) mod session;
pub(crate) mod socket;
pub(crate) mod tls;
pub(crate) mod url;
pub(crate) mod value;
