//! Every role: tells the other processes that there is something to do. A word that gets lost costs
//! time and nothing else, because every stage also looks by itself.

use super::StoreResult;

/// What can be woken. Each is one service of the pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Events wait for the router.
    Routing,
    /// Sagas may have come due, or a subscription may take more.
    Admission,
    /// Jobs wait for a worker.
    Delivery,
    /// Finished jobs wait to be applied.
    Results,
    /// Orders wait to be sent.
    Outbox,
}

impl Stage {
    pub const ALL: [Self; 5] = [Self::Routing, Self::Admission, Self::Delivery, Self::Results, Self::Outbox];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Routing => "routing",
            Self::Admission => "admission",
            Self::Delivery => "delivery",
            Self::Results => "results",
            Self::Outbox => "outbox",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.as_str() == text)
    }
}

pub trait AnnounceStore: Send + Sync + 'static {
    /// Tells every process that listens. A transaction of its own, after the work was committed.
    fn announce(&self, stages: Vec<Stage>) -> impl Future<Output = StoreResult<()>> + Send;
}

pub trait ListenStore: Send + 'static {
    /// Waits for the next words of other processes, also for ever; giving up the wait loses none of
    /// them. Connects when it has no connection: after a break, what was said meanwhile is lost, so the
    /// first answer after one names every stage.
    fn next_announcements(&mut self) -> impl Future<Output = StoreResult<Vec<Stage>>> + Send;
}
