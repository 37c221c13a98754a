//! The commit pipeline. All roles queue their work; one thread commits it in groups, and another flushes the log.
//!
//! ```text
//!  callers ──▶ queue ──▶ writer: BEGIN, a savepoint for each task, COMMIT (written, not flushed)
//!                           │
//!                           ├── Durability::Relaxed       acknowledged at once: after a crash the work is repeated
//!                           │
//!                           └──▶ flusher: one fsync of the log for all groups that were committed before it
//!                                   ├── Durability::Flushed       acknowledged after the fsync
//!                                   └── Durability::AfterFlushes  acknowledged after the fsyncs of earlier commits,
//!                                                                 without its own: a claimed job is sent, so what it
//!                                                                 refers to must survive a power failure
//! ```
//!
//! A failed task is rolled back to its savepoint. A full disk rolls back the whole group, and every caller in the group
//! gets the error. After a failed fsync, nothing is written until the whole log has been checkpointed.

pub(crate) mod flusher;
pub(crate) mod log;
pub(crate) mod task;
pub(crate) mod writer;
