//! Port of every role: wakes stages in other processes. A lost announcement only adds latency, because every
//! stage also polls.

use super::StoreResult;
use crate::ids::JobId;
use std::collections::BTreeSet;

/// A stage that can be woken. Each is one service of the pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Events wait for the router.
    Routing,
    /// Sagas may have come due, or a subscription may have free capacity.
    Admission,
    /// Jobs wait for a worker.
    Delivery,
    /// Results of finished jobs wait to be applied.
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

/// The stages that have work.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Announcement {
    pub stages: BTreeSet<Stage>,
    /// The smallest job id that finished. The results stage reads from there.
    pub lowest_finished: Option<JobId>,
}

/// Separates the stage and the job id in a message.
const SEPARATOR: char = ' ';

impl Announcement {
    /// Returns an announcement of every stage, for use when announcements may have been lost.
    pub fn all() -> Self {
        Self { stages: Stage::ALL.into(), lowest_finished: None }
    }

    pub fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    pub fn add(&mut self, stage: Stage) {
        self.stages.insert(stage);
    }

    /// Adds the results stage and a finished job.
    pub fn add_finished(&mut self, lowest: Option<JobId>) {
        self.stages.insert(Stage::Results);
        self.lowest_finished = [self.lowest_finished, lowest].into_iter().flatten().min();
    }

    pub fn merge(&mut self, other: Self) {
        self.stages.extend(other.stages);
        self.lowest_finished = [self.lowest_finished, other.lowest_finished].into_iter().flatten().min();
    }

    /// Returns one message for each stage, in the format of [`add_message`](Self::add_message).
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

    /// Adds the content of a message. A stage of a later version is ignored.
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
    /// Notifies every listening process, in its own transaction after the work was committed.
    fn announce(&self, announcement: Announcement) -> impl Future<Output = StoreResult<()>> + Send;
}

pub trait ListenStore: Send + 'static {
    /// Waits for the next announcements of other processes, without a timeout; it is cancel safe. Connects if
    /// there is no connection. Announcements made without a connection are lost, so the first result after
    /// connecting names every stage.
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
