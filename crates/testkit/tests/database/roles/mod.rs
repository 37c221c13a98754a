//! Rights of the roles: everything that `expected.txt` allows succeeds, and everything else is refused, by
//! trying it. PostgreSQL with a login for each role, SQLite as each role on the writer.

mod catalog;
mod document;
mod matrix;
mod own_logins;
mod postgres;
mod postgres_tries;
mod sqlite;
mod times;
