//! Port of every role: notifies other processes that a stage has work. A lost announcement only adds latency,
//! because every stage also polls.

use super::StoreResult;
use crate::ids::JobId;
use std::collections::BTreeSet;

/// A stage of the pipeline that can be woken up. Each stage is one service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Routes events that are waiting for the router.
    Routing,
    /// Admits sagas that have become due, or whose subscription has free capacity.
    Admission,
    /// Sends jobs that are waiting for a worker.
    Delivery,
    /// Applies the results of finished jobs.
    Results,
    /// Sends orders that are waiting for the outbox worker.
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

/// The stages that may have work.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Announcement {
    pub stages: BTreeSet<Stage>,
    /// The smallest id of the finished jobs, at which the results stage starts reading.
    pub lowest_finished: Option<JobId>,
}

/// The separator between the stage and the job id in a message.
const SEPARATOR: char = ' ';

impl Announcement {
    /// Returns an announcement for all stages, for use when announcements may have been lost.
    pub fn all() -> Self {
        Self { stages: Stage::ALL.into(), lowest_finished: None }
    }

    pub fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    pub fn add(&mut self, stage: Stage) {
        self.stages.insert(stage);
    }

    /// Adds the results stage, and the smallest id of the finished jobs if it is known.
    pub fn add_finished(&mut self, lowest: Option<JobId>) {
        self.stages.insert(Stage::Results);
        self.lowest_finished = [self.lowest_finished, lowest].into_iter().flatten().min();
    }

    pub fn merge(&mut self, other: Self) {
        self.stages.extend(other.stages);
        self.lowest_finished = [self.lowest_finished, other.lowest_finished].into_iter().flatten().min();
    }

    /// Returns one message per stage, in the format that [`add_message`](Self::add_message) parses.
    pub fn messages(&self) -> Vec<String> {
        let message = |stage: &Stage| match (stage, self.lowest_finished) {
            (Stage::Results, Some(job)) => format!("{}{SEPARATOR}{job}", stage.as_str()),
            (Stage::Results, None)
            | (Stage::Routing | Stage::Admission | Stage::Delivery | Stage::Outbox, Some(_) | None) => {
                stage.as_str().to_owned()
            }
        };
        self.stages.iter().map(message).collect()
    }

    /// Adds the content of a message. Unknown stages, which a later version may send, are ignored.
    pub fn add_message(&mut self, message: &str) {
        let (stage, job) = match message.split_once(SEPARATOR) {
            Some((stage, job)) => (stage, job.parse().ok().map(JobId::from_store)),
            None => (message, None),
        };
        match Stage::parse(stage) {
            Some(Stage::Results) => self.add_finished(job),
            Some(stage @ (Stage::Routing | Stage::Admission | Stage::Delivery | Stage::Outbox)) => {
                self.add(stage);
            }
            None => {}
        }
    }
}

pub trait AnnounceStore: Send + Sync + 'static {
    /// Notifies every listening process. Runs in a separate transaction, after the work has been committed.
    fn announce(&self, announcement: Announcement) -> impl Future<Output = StoreResult<()>> + Send;
}

pub trait ListenStore: Send + 'static {
    /// Waits for the next announcements from other processes, without a timeout. Connects if there is no
    /// connection. Announcements sent while there is no connection are lost, so the first result after
    /// connecting contains every stage.
    ///
    /// This method is cancel safe.
    fn next_announcements(&mut self) -> impl Future<Output = StoreResult<Announcement>> + Send;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_round_trip() {
        let mut sent = Announcement::default();
        sent.add(Stage::Routing);
        for (lowest, expected) in [(None, None), (Some(40), Some(40)), (Some(7), Some(7)), (Some(9), Some(7))]
        {
            sent.add_finished(lowest.map(JobId::from_store));
            let mut read = Announcement::default();
            sent.messages().iter().for_each(|message| read.add_message(message));
            assert_eq!(read, sent);
            assert_eq!(read.lowest_finished, expected.map(JobId::from_store));
        }
        let mut read = Announcement::default();
        for message in ["", "results x", "stage of a later version", "delivery 12"] {
            read.add_message(message);
        }
        assert_eq!(read.stages, BTreeSet::from([Stage::Delivery, Stage::Results]));
        assert_eq!(read.lowest_finished, None);
    }
}
