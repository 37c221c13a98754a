//! Receivers that hang, flood, break off, lie and hang up, over real sockets: each exchange ends with
//! the right code, within its deadline, and in bounded memory.
#![allow(clippy::expect_used)]

mod addresses;
mod answers;
mod connections;
mod receiver;
mod tls;
