//! Shared by engines that speak SQL over a connection: calls that are repeated after a fault, and what a fault means.
//! An engine adds its driver and the classification of its errors.

mod call;
mod fault;

pub(crate) use call::Call;
pub(crate) use fault::{Fault, Phase};
