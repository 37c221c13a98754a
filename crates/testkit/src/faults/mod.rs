//! What the program must survive: [`chaos`] breaks processes, PostgreSQL and connections under deliveries, [`order_chaos`]
//! the same and the broker under orders, [`outage`] takes PostgreSQL away for a while. Each runs a
//! [`Fleet`](crate::fleet::Fleet) under load, and a checker compares what was acknowledged with what happened.

pub mod acceptor;
pub mod chaos;
pub mod order_chaos;
pub mod outage;
