//! Provides a new database on one engine, with a store and direct SQL access.

use crate::direct::Direct;
use crate::proxy::{Mode, Proxy};
use crate::{postgres, random};
use posthaste_core::ports::{StoreError, StoreResult, Stores};
use posthaste_store::postgres::{PostgresOptions, PostgresStore};
use posthaste_store::sqlite::{self, SqliteOptions, SqliteStore};
use std::path::PathBuf;
use tempfile::TempDir;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    Sqlite,
    Postgres,
    /// PostgreSQL behind a [`Proxy`] that cuts connections.
    PostgresCut,
}

#[derive(Debug)]
pub struct Harness<S> {
    pub engine: Engine,
    /// The store under test. Its connections break on [`Engine::PostgresCut`].
    pub store: S,
    /// A store on the same database whose connections do not break, for setting up a test.
    pub calm: S,
    pub direct: Direct,
    pub proxy: Option<Proxy>,
    file: Option<SqliteFile>,
    url: Option<String>,
}

/// A new, migrated SQLite database that is not open in any store.
#[derive(Debug)]
pub struct SqliteFile(TempDir);

impl SqliteFile {
    pub fn migrated() -> Self {
        let file = Self(tempfile::tempdir().expect("a folder"));
        sqlite::migrate(&file.path()).expect("the migration");
        file
    }

    pub fn path(&self) -> PathBuf {
        self.0.path().join("posthaste.db")
    }

    pub fn url(&self) -> String {
        format!("sqlite://{}", self.path().display())
    }

    pub fn open(&self) -> SqliteStore {
        SqliteStore::open(&SqliteOptions::new(self.path())).expect("the store")
    }
}

impl Harness<SqliteStore> {
    pub async fn sqlite(_name: &str) -> Self {
        Self::sqlite_with(|_| {})
    }

    /// Creates a harness on SQLite with options modified by `change`.
    pub fn sqlite_with(change: impl FnOnce(&mut SqliteOptions)) -> Self {
        let file = SqliteFile::migrated();
        let (path, mut options) = (file.path(), SqliteOptions::new(file.path()));
        change(&mut options);
        let store = SqliteStore::open(&options).expect("the store");
        Self {
            engine: Engine::Sqlite,
            calm: store.clone(),
            store,
            direct: Direct::sqlite(&path),
            proxy: None,
            file: Some(file),
            url: None,
        }
    }

    /// Returns the path of the database file.
    pub fn path(&self) -> PathBuf {
        self.file.as_ref().expect("a file").path()
    }
}

impl Harness<PostgresStore> {
    pub async fn postgres(name: &str) -> Self {
        Self::postgres_with(name, |_| {}).await
    }

    /// Creates a harness on PostgreSQL with options modified by `change`.
    pub async fn postgres_with(name: &str, change: impl FnOnce(&mut PostgresOptions)) -> Self {
        Self::postgres_at(postgres::migrated_database(name).await, change).await
    }

    /// Creates a harness on an existing PostgreSQL database. `url` is that of a superuser.
    pub async fn postgres_at(url: String, change: impl FnOnce(&mut PostgresOptions)) -> Self {
        let mut options = PostgresOptions::new(&url);
        change(&mut options);
        let store = PostgresStore::connect(&options).await.expect("the store");
        let direct = Direct::postgres(&url).await;
        // Store tests pass times that differ from the server's clock.
        direct.run("UPDATE clock_guard SET enforced = false").await;
        Self {
            engine: Engine::Postgres,
            calm: store.clone(),
            store,
            direct,
            proxy: None,
            file: None,
            url: Some(url),
        }
    }

    pub async fn postgres_cut(name: &str) -> Self {
        let calm = Self::postgres("cut").await;
        let url = calm.url.clone().expect("a URL");
        // The faults differ between tests but are the same in every run.
        let seed =
            name.bytes().fold(random::seed(), |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
        let proxy = Proxy::start(postgres::server_address(&url), Mode::Cut { seed }).await;
        let through = postgres::url_with(&url, None, Some(proxy.address));
        let mut tries = 0;
        let store = loop {
            match PostgresStore::connect(&PostgresOptions::new(&through)).await {
                Ok(store) => break store,
                Err(error) => assert!(tries < 20, "{error:?}"),
            }
            tries += 1;
        };
        Self { engine: Engine::PostgresCut, store, proxy: Some(proxy), ..calm }
    }

    /// Returns SQL access to the same database for a superuser.
    pub async fn admin(&self) -> Direct {
        Direct::postgres(&postgres::as_admin(self.url())).await
    }

    /// Returns the URL of the database, which bypasses the proxy.
    pub fn url(&self) -> &str {
        self.url.as_deref().expect("a URL")
    }
}

impl<S: Stores> Harness<S> {
    /// Retries an idempotent call until it succeeds. Panics on any error other than a broken connection.
    pub async fn sure<T>(&self, call: impl AsyncFn() -> StoreResult<T>) -> T {
        for _ in 0..500 {
            match call().await {
                Ok(answer) => return answer,
                Err(error @ (StoreError::Unavailable { .. } | StoreError::OutcomeUnknown { .. }))
                    if self.engine == Engine::PostgresCut =>
                {
                    drop(error);
                    tokio::task::yield_now().await;
                }
                Err(error) => panic!("{error:?}"),
            }
        }
        panic!("500 tries were cut off");
    }
}

/// Defines one test per function on one engine, in a module named after the engine. Each function is called with an
/// expression over its own new [`Harness`].
#[macro_export]
macro_rules! on_engine {
    ($engine:ident, |$h:ident| $given:expr; $($area:ident :: $promise:ident,)*) => {
        mod $engine {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $promise() {
                    let $h = $crate::harness::Harness::$engine(stringify!($promise)).await;
                    super::$area::$promise($given).await;
                }
            )*
        }
    };
}

/// Defines one test per function on each engine: `on_both_engines! { |h| &h; area::promise, }`.
#[macro_export]
macro_rules! on_both_engines {
    (|$h:ident| $given:expr; $($promises:tt)*) => {
        $crate::on_engine! { sqlite, |$h| $given; $($promises)* }
        $crate::on_engine! { postgres, |$h| $given; $($promises)* }
    };
}
