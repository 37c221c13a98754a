//! From a name to its addresses. The sender asks; the answer is judged by [`crate::egress`] before
//! anything connects. Tests script their own answers.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Semaphore, watch};

/// The most look-ups under way. Each holds a thread of the runtime until the system's resolver answers,
/// even if nobody waits any more.
const LOOKUPS_MAX: usize = 128;

/// The future of an answer, boxed so that a sender needs no type parameter for who resolves.
pub type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

pub trait Resolve: Send + Sync + 'static {
    /// All addresses of a name, in the order in which they are to be tried.
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a>;
}

type Answer = Option<Result<Vec<IpAddr>, io::ErrorKind>>;

/// The system's resolver. Those who ask for one name at the same time share one look-up, so that a name
/// whose servers are dead holds one thread and not one for each delivery to it. Nothing is cached.
#[derive(Debug, Clone)]
pub struct SystemResolver {
    places: Arc<Semaphore>,
    asked: Arc<Mutex<HashMap<String, watch::Receiver<Answer>>>>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(LOOKUPS_MAX)), asked: Arc::default() }
    }
}

impl SystemResolver {
    fn ask(&self, name: &str) -> watch::Receiver<Answer> {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        // A look-up that broke off has no sender any more: it is asked anew.
        if let Some(answer) = asked.get(name).filter(|answer| answer.has_changed().is_ok()) {
            return answer.clone();
        }
        let (sender, receiver) = watch::channel(None);
        asked.insert(name.to_owned(), receiver.clone());
        tokio::spawn(self.clone().look_up(name.to_owned(), sender));
        receiver
    }

    async fn look_up(self, name: String, answer: watch::Sender<Answer>) {
        let _place = self.places.acquire().await;
        // The port only completes the form that the call wants.
        let found = tokio::net::lookup_host((name.as_str(), 0)).await;
        let addresses = found.map(|addresses| addresses.map(|address| address.ip()).collect());
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
        answer.send_replace(Some(addresses.map_err(|error| error.kind())));
    }
}

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        let mut answer = self.ask(name);
        Box::pin(async move {
            let broke_off = |_| io::Error::other("the look-up broke off");
            let found = answer.wait_for(Option::is_some).await.map_err(broke_off)?.clone();
            found.unwrap_or(Err(io::ErrorKind::Other)).map_err(io::Error::from)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn localhost_is_found_and_nothing_stays_behind() {
        let resolver = SystemResolver::default();
        let (one, two) = tokio::join!(resolver.resolve("localhost"), resolver.resolve("localhost"));
        let one = one.expect("an answer");
        assert!(!one.is_empty() && one.iter().all(IpAddr::is_loopback), "{one:?}");
        assert_eq!(two.expect("the same answer"), one);
        assert!(resolver.asked.lock().expect("the map").is_empty());
    }

    #[tokio::test]
    async fn those_who_ask_at_the_same_time_share_one_look_up() {
        let resolver = SystemResolver::default();
        let held = resolver.places.acquire_many(LOOKUPS_MAX as u32).await.expect("all places");
        let answers = [resolver.ask("localhost"), resolver.ask("localhost")];
        assert!(answers[0].same_channel(&answers[1]));
        drop(held);
        let [mut answer, _] = answers;
        assert!(answer.wait_for(Option::is_some).await.is_ok());
    }

    #[tokio::test]
    async fn a_name_that_cannot_be_is_an_error() {
        // Too long for any resolver, so that none is asked.
        assert!(SystemResolver::default().resolve(&"a".repeat(300)).await.is_err());
    }
}
