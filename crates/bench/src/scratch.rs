//! Temporary stores, each for one scenario, and the folder for all files of a benchmark run.

use anyhow::Context as _;
use posthaste_store::postgres::{self, MigrateOptions, PasswordSource, RoleSource};
use posthaste_store::sqlite;
use std::path::{Path, PathBuf};

/// A database engine to measure.
#[derive(Debug, Clone)]
pub enum Engine {
    Sqlite,
    Postgres { server: String, password: PasswordSource },
}

impl Engine {
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres { .. } => "postgres",
        }
    }

    /// Creates an empty store with the current schema.
    pub async fn scratch(&self, folder: &Path, name: &str) -> anyhow::Result<Scratch> {
        match self {
            Self::Sqlite => Scratch::sqlite(folder, name),
            Self::Postgres { server, password } => Scratch::postgres(server, password, name).await,
        }
    }
}

/// A temporary store with the current schema. It is not removed on drop: call [`Scratch::remove`].
#[derive(Debug)]
pub struct Scratch {
    pub url: String,
    /// Where the password of the PostgreSQL server comes from.
    pub password: PasswordSource,
    what: ScratchKind,
}

#[derive(Debug)]
enum ScratchKind {
    File(PathBuf),
    Database { server: String, name: String },
}

impl Scratch {
    fn sqlite(folder: &Path, name: &str) -> anyhow::Result<Self> {
        let folder = folder.join(name);
        std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        let path = folder.join("posthaste.db");
        sqlite::migrate(&path)?;
        let url = format!("sqlite://{}", path.display());
        Ok(Self { url, password: PasswordSource::Url, what: ScratchKind::File(folder) })
    }

    /// Creates a database on the PostgreSQL server at the URL `server`.
    async fn postgres(server: &str, password: &PasswordSource, name: &str) -> anyhow::Result<Self> {
        let name = format!("posthaste_bench_{}_{}", std::process::id(), name.replace('-', "_"));
        let url = postgres::url_with_database(server, &name);
        postgres::create_database(server, password, &name).await?;
        // Roles would belong to the whole cluster and remain after the benchmark. They do not change what is measured.
        let options = MigrateOptions {
            roles: RoleSource::None,
            password: password.clone(),
            ..MigrateOptions::default()
        };
        postgres::migrate(&url, &options).await?;
        let what = ScratchKind::Database { server: server.to_owned(), name };
        Ok(Self { url, password: password.clone(), what })
    }

    pub async fn remove(self) {
        let removed = match self.what {
            ScratchKind::File(folder) => std::fs::remove_dir_all(folder).map_err(anyhow::Error::from),
            ScratchKind::Database { server, name } => {
                postgres::drop_database(&server, &self.password, &name).await.map_err(anyhow::Error::from)
            }
        };
        if let Err(error) = removed {
            eprintln!("posthaste: cannot remove a store of the benchmark: {error:#}");
        }
    }
}

/// The folder for all files of a benchmark run. It is removed on drop.
#[derive(Debug)]
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(parent: &Path) -> anyhow::Result<Self> {
        let parent = parent.canonicalize().with_context(|| format!("resolving {}", parent.display()))?;
        let folder = parent.join(format!("posthaste-bench-{}", std::process::id()));
        std::fs::create_dir(&folder).with_context(|| format!("creating {}", folder.display()))?;
        Ok(Self(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("posthaste: cannot remove {}: {error}", self.0.display());
        }
    }
}
