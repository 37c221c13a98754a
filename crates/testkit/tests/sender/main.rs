//! Receivers that hang, flood, break off, lie and hang up, over real sockets: each exchange ends with
//! the right code, within its deadline, and in bounded memory. What the address policy refuses never leaves.
#![allow(clippy::expect_used)]

mod addresses;
mod answers;
mod connections;
mod egress;
mod senders;
mod tls;
