//! One fresh database of one engine, with a store on it and a way past the store.

use crate::direct::Direct;
use crate::proxy::CuttingProxy;
use crate::{postgres, random};
use posthaste_core::ports::{StoreError, StoreResult, Stores};
use posthaste_store::postgres::{PostgresOptions, PostgresStore};
use posthaste_store::sqlite::{self, SqliteOptions, SqliteStore};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tempfile::TempDir;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    Sqlite,
    Postgres,
    /// PostgreSQL behind a [`CuttingProxy`].
    PostgresCut,
}

#[derive(Debug)]
pub struct Harness<S> {
    pub engine: Engine,
    /// The store under test; on [`Engine::PostgresCut`] its connections break.
    pub store: S,
    /// A store on the same database whose connections do not break, to arrange things with.
    pub calm: S,
    pub direct: Direct,
    pub proxy: Option<CuttingProxy>,
    folder: Option<TempDir>,
    url: Option<String>,
}

impl Harness<SqliteStore> {
    pub async fn sqlite(_name: &str) -> Self {
        Self::sqlite_counted(None)
    }

    /// The same, with the steps of the engine's machine counted.
    pub fn sqlite_counted(steps: Option<Arc<AtomicU64>>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("posthaste.db");
        sqlite::migrate(&path).expect("the migration");
        let store =
            SqliteStore::open(&SqliteOptions { steps, ..SqliteOptions::new(&path) }).expect("the store");
        Self {
            engine: Engine::Sqlite,
            calm: store.clone(),
            store,
            direct: Direct::sqlite(&path),
            proxy: None,
            folder: Some(folder),
            url: None,
        }
    }

    /// The file of the database.
    pub fn path(&self) -> std::path::PathBuf {
        self.folder.as_ref().expect("a folder").path().join("posthaste.db")
    }
}

impl Harness<PostgresStore> {
    pub async fn postgres(name: &str) -> Self {
        let url = postgres::migrated_database(name).await;
        let store = PostgresStore::connect(&PostgresOptions::new(&url)).await.expect("the store");
        let direct = Direct::postgres(&url).await;
        // Tests of the store give it times of their own.
        direct.run("UPDATE clock_guard SET enforced = false").await;
        Self {
            engine: Engine::Postgres,
            calm: store.clone(),
            store,
            direct,
            proxy: None,
            folder: None,
            url: Some(url),
        }
    }

    pub async fn postgres_cut(name: &str) -> Self {
        let calm = Self::postgres("cut").await;
        let url = calm.url.clone().expect("a URL");
        // Every test its own faults, and the same ones every time.
        let seed =
            name.bytes().fold(random::seed(), |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
        let proxy = CuttingProxy::start(server_address(&url), seed).await;
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

    /// The URL of the database, past the proxy.
    pub fn url(&self) -> &str {
        self.url.as_deref().expect("a URL")
    }
}

fn server_address(url: &str) -> SocketAddr {
    let authority = url.split('@').nth(1).and_then(|rest| rest.split('/').next()).expect("a host");
    authority.parse().unwrap_or_else(|_| panic!("{authority} is not an address and a port"))
}

impl<S: Stores> Harness<S> {
    /// Makes a call that may be repeated until it is answered; only a broken wire may ask for that.
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
