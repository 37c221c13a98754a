//! Moves deliveries on: [`Admission`] starts the attempts that are due (of sagas that the router and
//! requeues made), [`Results`] applies what workers reported. What becomes of a saga is decided in
//! `core::saga` and nowhere else; here it is decided whose turn it is.

mod admission;
mod due;
mod in_flight;
mod results;

pub use admission::Admission;
pub use in_flight::InFlight;
pub use results::Results;
