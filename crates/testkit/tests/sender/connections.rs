//! Tests keep-alive: connections are reused, a connection closed by the receiver costs no attempt, idle
//! connections are limited in time and number, and no request is sent twice.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use posthaste_services::sender::{KeepAlive, ReadUpTo, Sender, SystemResolver, Trust};
use posthaste_testkit::receiver::{Receiver, read_request, reset_at_end};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Barrier, mpsc};

use crate::senders::{OK, PATIENT, answering, code, deliver, policy, send, sender};

/// Responds to one request, closes the connection without a `connection: close` header, and signals `closed`.
async fn hang_up(mut stream: TcpStream, closed: mpsc::UnboundedSender<()>) -> io::Result<()> {
    if read_request(&mut stream).await?.is_some() {
        stream.write_all(OK).await?;
    }
    drop(stream);
    let _ = closed.send(());
    Ok(())
}

fn keeping(keep_alive: KeepAlive) -> Sender {
    Sender::with_resolver(policy(), Trust::nobody(), keep_alive, SystemResolver).expect("a sender")
}

#[tokio::test]
async fn connections_are_reused() {
    let answers: [&[u8]; 3] = [
        OK,
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 500 No\r\ntransfer-encoding: chunked\r\n\r\n3\r\nyes\r\n0\r\n\r\n",
    ];
    for answer in answers {
        let receiver = answering(answer).await;
        let sender = sender();
        for turn in 0..100 {
            let wanted = if turn % 2 == 0 { ReadUpTo::Status } else { ReadUpTo::Body { bytes_max: 100 } };
            let exchange = send(&sender, &receiver.url("/hook"), wanted, PATIENT).await;
            assert!(exchange.body_complete && exchange.status().is_some());
        }
        assert_eq!(receiver.accepted(), 1);
    }
}

#[tokio::test]
async fn connections_closed_by_the_response_are_not_reused() {
    let answers: [&[u8]; 4] = [
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nkeep-alive: timeout=0\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok and more than that",
    ];
    for answer in answers {
        let receiver = answering(answer).await;
        let sender = sender();
        for _ in 0..5 {
            assert_eq!(code(&deliver(&sender, &receiver.url("/hook")).await), "200");
        }
        assert_eq!(receiver.accepted(), 5, "{}", String::from_utf8_lossy(answer));
    }
}

#[tokio::test]
async fn a_closed_connection_costs_no_attempt() {
    let (closed, mut is_closed) = mpsc::unbounded_channel();
    let receiver = Receiver::raw(move |stream| hang_up(stream, closed.clone())).await;
    for _ in 0..200 {
        // A new sender each time, because a used one would not reuse a connection to this host.
        let sender = sender();
        for _ in 0..2 {
            assert_eq!(code(&deliver(&sender, &receiver.url("/hook")).await), "200");
            is_closed.recv().await;
        }
    }
    assert_eq!(receiver.accepted(), 400);
}

/// Checks the case in which only the kernel knows that the connection is closed: the receiver runs on a separate
/// thread, and the runtime does not run between the close and the next request.
#[tokio::test]
async fn a_connection_closed_unnoticed_costs_no_attempt() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let (hang_up, is_to_hang_up) = std::sync::mpsc::channel();
    let (closed, is_closed) = std::sync::mpsc::channel();
    let receiver = std::thread::spawn(move || -> io::Result<usize> {
        let mut requests = 0;
        loop {
            let (mut stream, _) = listener.accept()?;
            let (mut read, mut len) = ([0; 1000], 0);
            while !read[..len].ends_with(b"\r\n\r\n{}") {
                len += io::Read::read(&mut stream, &mut read[len..])?;
            }
            io::Write::write_all(&mut stream, OK)?;
            requests += 1;
            let Ok(()) = is_to_hang_up.recv() else { return Ok(requests) };
            drop(stream);
            let _ = closed.send(());
        }
    });
    for _ in 0..50 {
        let sender = sender();
        for _ in 0..2 {
            assert_eq!(code(&deliver(&sender, &url).await), "200");
            hang_up.send(()).expect("a receiver");
            is_closed.recv().expect("a receiver");
        }
    }
    assert_eq!(code(&deliver(&sender(), &url).await), "200");
    drop(hang_up);
    assert_eq!(receiver.join().expect("a thread").expect("no error"), 101, "each request once");
}

#[tokio::test]
async fn a_receiver_that_always_closes_costs_no_attempt() {
    let (closed, is_closed) = mpsc::unbounded_channel();
    let receiver = Receiver::raw(move |stream| hang_up(stream, closed.clone())).await;
    let sender = keeping(KeepAlive::default());
    for _ in 0..200 {
        let exchange = deliver(&sender, &receiver.url("/hook")).await;
        assert_eq!((code(&exchange).as_str(), exchange.bytes_written), ("200", true));
    }
    assert_eq!((receiver.accepted(), is_closed.len()), (200, 200));
}

#[tokio::test]
async fn no_request_is_repeated_after_its_first_byte() {
    let requests = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&requests);
    let receiver = Receiver::raw(move |mut stream| {
        let seen = Arc::clone(&seen);
        async move {
            read_request(&mut stream).await?;
            stream.write_all(OK).await?;
            // Reads part of the second request, then resets the connection.
            stream.read_exact(&mut [0; 10]).await?;
            seen.fetch_add(1, Ordering::SeqCst);
            reset_at_end(&stream);
            Ok(())
        }
    })
    .await;
    let sender = sender();
    assert_eq!(code(&deliver(&sender, &receiver.url("/hook")).await), "200");
    let exchange = deliver(&sender, &receiver.url("/hook")).await;
    assert_eq!((code(&exchange).as_str(), exchange.bytes_written), ("CONNECT_FAILED", true));
    assert_eq!((receiver.accepted(), requests.load(Ordering::SeqCst)), (1, 1));
}

#[tokio::test]
async fn idle_connections_are_closed_after_their_timeout() {
    let (ended, mut has_ended) = mpsc::unbounded_channel();
    let receiver = Receiver::raw(move |mut stream| {
        let ended = ended.clone();
        async move {
            while read_request(&mut stream).await?.is_some() {
                stream.write_all(OK).await?;
            }
            let _ = ended.send(());
            Ok(())
        }
    })
    .await;
    let sender = keeping(KeepAlive { idle_max: Duration::from_millis(400), ..KeepAlive::default() });
    assert_eq!(code(&deliver(&sender, &receiver.url("/hook")).await), "200");
    // The connection is closed although no further request is sent.
    assert_eq!(has_ended.recv().await, Some(()));
    assert_eq!(code(&deliver(&sender, &receiver.url("/hook")).await), "200");
    drop(sender);
    assert_eq!(has_ended.recv().await, Some(()), "and all when the sender is dropped");
}

/// Starts a receiver that responds once `together` requests have arrived. It signals the end of each connection
/// on `ended`.
async fn gather(ip: Ipv4Addr, together: usize, ended: mpsc::UnboundedSender<()>) -> Receiver {
    let barrier = Arc::new(Barrier::new(together));
    Receiver::raw_at(ip.into(), move |mut stream| {
        let (barrier, ended) = (Arc::clone(&barrier), ended.clone());
        async move {
            while read_request(&mut stream).await?.is_some() {
                barrier.wait().await;
                stream.write_all(OK).await?;
            }
            let _ = ended.send(());
            Ok(())
        }
    })
    .await
}

#[tokio::test]
async fn idle_connections_are_bounded_for_each_host_and_in_total() {
    let long = KeepAlive { idle_max: PATIENT, rest_at_new_hosts: false, ..KeepAlive::default() };
    // (limits, concurrent requests to each of two hosts, connections closed at once)
    let rows = [
        (KeepAlive { idle_per_host_max: 3, ..long }, 5, 4),
        (KeepAlive { idle_total_max: 4, ..long }, 5, 6),
        (KeepAlive { idle_per_host_max: 0, ..long }, 5, 10),
        (long, 5, 0),
    ];
    for (keep_alive, together, closed) in rows {
        let (ended, mut has_ended) = mpsc::unbounded_channel();
        let (sender, mut receivers) = (keeping(keep_alive), Vec::new());
        for ip in [Ipv4Addr::new(127, 0, 0, 1), Ipv4Addr::new(127, 0, 0, 2)] {
            let receiver = gather(ip, together, ended.clone()).await;
            let mut sends = tokio::task::JoinSet::new();
            for _ in 0..together {
                let (sender, url) = (sender.clone(), receiver.url("/hook"));
                sends.spawn(async move { code(&deliver(&sender, &url).await) });
            }
            assert!(sends.join_all().await.iter().all(|code| code == "200"));
            assert_eq!(receiver.accepted(), together);
            receivers.push(receiver);
        }
        for _ in 0..closed {
            assert_eq!(has_ended.recv().await, Some(()));
        }
        drop(sender);
        for _ in closed..2 * together {
            assert_eq!(has_ended.recv().await, Some(()));
        }
        assert!(has_ended.is_empty(), "{keep_alive:?}");
    }
}

#[tokio::test]
async fn all_concurrent_connections_are_reused() {
    const TOGETHER: usize = 200;
    let sender = keeping(KeepAlive { rest_at_new_hosts: false, ..KeepAlive::default() });
    let (ended, _has_ended) = mpsc::unbounded_channel();
    let receiver = gather(Ipv4Addr::LOCALHOST, TOGETHER, ended).await;
    for _ in 0..2 {
        let mut sends = tokio::task::JoinSet::new();
        for _ in 0..TOGETHER {
            let (sender, url) = (sender.clone(), receiver.url("/hook"));
            sends.spawn(async move { code(&deliver(&sender, &url).await) });
        }
        assert!(sends.join_all().await.iter().all(|code| code == "200"));
    }
    assert_eq!(receiver.accepted(), TOGETHER);
}

#[tokio::test]
async fn at_the_limit_the_longest_idle_connection_is_closed() {
    let one = KeepAlive { idle_total_max: 1, rest_at_new_hosts: false, ..KeepAlive::default() };
    let sender = keeping(one);
    let (first, second) = (answering(OK).await, answering(OK).await);
    for receiver in [&first, &second, &second, &second, &first, &first] {
        assert_eq!(code(&deliver(&sender, &receiver.url("/hook")).await), "200");
    }
    assert_eq!((first.accepted(), second.accepted()), (2, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_shared_between_threads() {
    let receiver = answering(OK).await;
    let sender = keeping(KeepAlive::default());
    let mut senders = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let (sender, url) = (sender.clone(), receiver.url("/hook"));
        senders.spawn(async move {
            for _ in 0..100 {
                assert_eq!(code(&deliver(&sender, &url).await), "200");
            }
        });
    }
    senders.join_all().await;
    assert!(receiver.accepted() < 2_500, "{} connections for 5,000 requests", receiver.accepted());
}
