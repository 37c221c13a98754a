//! Tests the sender over real sockets with receivers that hang, flood, break connections or violate HTTP. Each
//! exchange ends with the right code, within its deadline and in bounded memory. A request that the address
//! policy refuses is never sent.
#![allow(clippy::expect_used)]

mod addresses;
mod answers;
mod connections;
mod egress;
mod identities;
mod methods;
mod oauth2;
mod proxy;
mod rules;
mod senders;
mod tls;
