//! Resolves host names for the sender. [`crate::egress`] checks the addresses before any connection is
//! opened. Tests use scripted resolvers.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Semaphore, watch};

/// The maximum number of concurrent lookups. Each lookup occupies a thread of the runtime until the system
/// resolver returns, even if its caller no longer waits.
const LOOKUPS_MAX: usize = 128;

/// The future returned by [`Resolve::resolve`]. Boxed so that the sender needs no type parameter for the
/// resolver.
pub type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

pub trait Resolve: Send + Sync + 'static {
    /// Returns all addresses of a host name, in the order in which they should be tried.
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a>;
}

type Answer = Option<Result<Vec<IpAddr>, io::ErrorKind>>;

/// The system resolver. Concurrent lookups of the same name share one thread, so a name whose servers do not
/// respond does not occupy a thread per delivery. Results are not cached.
#[derive(Debug, Clone)]
pub struct SystemResolver {
    permits: Arc<Semaphore>,
    pending: Arc<Mutex<HashMap<String, watch::Receiver<Answer>>>>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self { permits: Arc::new(Semaphore::new(LOOKUPS_MAX)), pending: Arc::default() }
    }
}

impl SystemResolver {
    fn start_lookup(&self, name: &str) -> watch::Receiver<Answer> {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        // An aborted lookup has dropped its sender, so a new lookup is started.
        if let Some(answer) = pending.get(name).filter(|answer| answer.has_changed().is_ok()) {
            return answer.clone();
        }
        let (sender, receiver) = watch::channel(None);
        pending.insert(name.to_owned(), receiver.clone());
        tokio::spawn(self.clone().lookup(name.to_owned(), sender));
        receiver
    }

    async fn lookup(self, name: String, answer: watch::Sender<Answer>) {
        let _permit = self.permits.acquire().await;
        // The function requires a port, which is not used.
        let found = tokio::net::lookup_host((name.as_str(), 0)).await;
        let addresses = found.map(|addresses| addresses.map(|address| address.ip()).collect());
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
        answer.send_replace(Some(addresses.map_err(|error| error.kind())));
    }
}

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        let mut answer = self.start_lookup(name);
        Box::pin(async move {
            let aborted = |_| io::Error::other("the lookup was aborted");
            let found = answer.wait_for(Option::is_some).await.map_err(aborted)?.clone();
            found.unwrap_or(Err(io::ErrorKind::Other)).map_err(io::Error::from)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn localhost_is_resolved_and_not_cached() {
        let resolver = SystemResolver::default();
        let (one, two) = tokio::join!(resolver.resolve("localhost"), resolver.resolve("localhost"));
        let one = one.expect("an answer");
        assert!(!one.is_empty() && one.iter().all(IpAddr::is_loopback), "{one:?}");
        assert_eq!(two.expect("the same answer"), one);
        assert!(resolver.pending.lock().expect("the map").is_empty());
    }

    #[tokio::test]
    async fn concurrent_lookups_of_one_name_are_shared() {
        let resolver = SystemResolver::default();
        let held = resolver.permits.acquire_many(LOOKUPS_MAX as u32).await.expect("all permits");
        let answers = [resolver.start_lookup("localhost"), resolver.start_lookup("localhost")];
        assert!(answers[0].same_channel(&answers[1]));
        drop(held);
        let [mut answer, _] = answers;
        assert!(answer.wait_for(Option::is_some).await.is_ok());
    }

    #[tokio::test]
    async fn invalid_name_is_an_error() {
        // The name is too long for any resolver, so no query is sent.
        assert!(SystemResolver::default().resolve(&"a".repeat(300)).await.is_err());
    }
}
