//! Migrations: refused when they do not fit, one at a time whoever starts them, and finished by the
//! next start wherever the last one was broken off.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod filled;
mod fit;
mod postgres_killed;
mod postgres_together;
mod sqlite_killed;
mod sqlite_together;
