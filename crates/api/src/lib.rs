//! The HTTP side of Posthaste. So far it knows how to say what went wrong: [`problem`].

pub mod problem;
