//! Every promise of the stores, on SQLite, on PostgreSQL, and on PostgreSQL over a wire that breaks.

use posthaste_testkit::conformance;
use posthaste_testkit::harness::Harness;

macro_rules! on_every_engine {
    ($($area:ident :: $promise:ident,)*) => {
        mod sqlite {
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $promise() {
                    conformance::$area::$promise(&Harness::sqlite(stringify!($promise)).await).await;
                }
            )*
        }
        mod postgres {
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $promise() {
                    conformance::$area::$promise(&Harness::postgres("test").await).await;
                }
            )*
        }
        mod postgres_cut {
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $promise() {
                    conformance::$area::$promise(&Harness::postgres_cut(stringify!($promise)).await).await;
                }
            )*
        }
    };
}

posthaste_testkit::promises!(on_every_engine);
