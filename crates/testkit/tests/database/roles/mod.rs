//! Tests the rights of the roles by trying every operation: those that `expected.txt` allows must succeed, and all
//! others must be refused. PostgreSQL is tested with one login per role, SQLite with each role on the writer.

mod catalog;
mod cluster;
mod document;
mod matrix;
mod own_logins;
mod postgres;
mod postgres_tries;
mod sqlite;
mod times;
