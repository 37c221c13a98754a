//! One request to the server and its answer, over HTTP/1.1. Every wait and every body has a bound.

use super::{Call, Failure, answer, tls};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderValue, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longer than the server takes for a challenge to a receiver that does not answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);
/// More than the largest page: 4 MiB of payloads, and what stands around 200 of them.
const ANSWER_BYTES_MAX: usize = 16 << 20;
const AGENT: &str = concat!("posthaste-cli/", env!("CARGO_PKG_VERSION"));

/// A Posthaste that answers somewhere, and who we are to it.
#[derive(Clone)]
pub(crate) struct ApiClient {
    /// As it was given, for messages.
    url: String,
    host: String,
    port: u16,
    is_tls: bool,
    /// Of every call, when the server stands behind a path.
    prefix: String,
    authorization: Option<HeaderValue>,
}

impl ApiClient {
    pub(crate) fn new(url: &str, key: Option<&str>) -> Result<Self, Failure> {
        let wrong = |why: &str| Failure::Usage(format!("--url {url}: {why}"));
        let parsed: Uri = url.parse().map_err(|_| wrong("not a URL such as http://127.0.0.1:8080"))?;
        match parsed.scheme_str() {
            Some("http" | "https") => {}
            Some(_) | None => return Err(wrong("a URL begins with http:// or https://")),
        }
        let is_tls = parsed.scheme_str() == Some("https");
        let host = parsed.host().filter(|host| !host.is_empty()).ok_or_else(|| wrong("names no host"))?;
        if parsed.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(Failure::Usage("--url takes no user and no password: the key is --key".to_owned()));
        }
        if parsed.query().is_some() {
            return Err(wrong("takes no query"));
        }
        let authorization = key.map(|key| HeaderValue::from_str(&format!("Bearer {key}"))).transpose();
        let mut authorization =
            authorization.map_err(|_| Failure::Usage("the key holds what no key may hold".to_owned()))?;
        if let Some(value) = &mut authorization {
            value.set_sensitive(true);
        }
        Ok(Self {
            url: url.to_owned(),
            host: host.to_owned(),
            port: parsed.port_u16().unwrap_or(if is_tls { 443 } else { 80 }),
            is_tls,
            prefix: parsed.path().trim_end_matches('/').to_owned(),
            authorization,
        })
    }

    /// The body of an answer that is 2xx.
    pub(crate) async fn ask(&self, call: &Call) -> Result<String, Failure> {
        let stream = self.connect().await?;
        let exchange = async {
            match self.is_tls {
                true => self.converse(tls::shake_hands(self.name(), stream).await?, call).await,
                false => self.converse(stream, call).await,
            }
        };
        let late = || self.unreachable(format!("no whole answer within {} s", ANSWER_TIMEOUT.as_secs()));
        let exchanged = timeout(ANSWER_TIMEOUT, exchange).await.map_err(|_| late())?;
        let (status, body) = exchanged.map_err(|error| self.unreachable(format!("{error:#}")))?;
        if !status.is_success() {
            return Err(Failure::of_answer(status.as_u16(), &body));
        }
        let not_text = |_| Failure::Local(format!("{}: the answer is not text", self.url));
        String::from_utf8(body.to_vec()).map_err(not_text)
    }

    /// The body of a 2xx answer, and its value; `Null` for an empty one.
    ///
    /// Returns an error if the body is not JSON, or has not the fields that every answer to this call has: an
    /// answer that was not understood must not pass for an empty one.
    pub(crate) async fn ask_value(&self, call: &Call) -> Result<(String, Value), Failure> {
        let text = self.ask(call).await?;
        let value = if text.is_empty() { Ok(Value::Null) } else { answer::parse(&text) };
        let value = value.map_err(|why| self.unreadable(&why))?;
        match call.required.filter(|field| value.get(field).is_none()) {
            Some(field) => Err(self.unreadable(&format!("it has no field {field}"))),
            None => Ok((text, value)),
        }
    }

    fn unreadable(&self, why: &str) -> Failure {
        Failure::Local(format!(
            "cannot read the answer of {}: {why}\n\
             Check that --url or POSTHASTE_URL leads to Posthaste, and that it has the version of this program \
             (posthaste --version).",
            self.url
        ))
    }

    async fn converse<S>(&self, stream: S, call: &Call) -> anyhow::Result<(StatusCode, Bytes)>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let talking = tokio::spawn(connection);
        let answer = sender.send_request(self.request(call)?).await?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        talking.abort();
        Ok((status, body.map_err(anyhow::Error::from_boxed)?.to_bytes()))
    }

    /// The host as a resolver and a certificate know it, without the brackets of IPv6.
    fn name(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    async fn connect(&self) -> Result<TcpStream, Failure> {
        match timeout(CONNECT_TIMEOUT, TcpStream::connect((self.name(), self.port))).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(self.unreachable(error.to_string())),
            Err(_) => Err(self.unreachable(format!("no connection within {} s", CONNECT_TIMEOUT.as_secs()))),
        }
    }

    fn request(&self, call: &Call) -> http::Result<Request<Full<Bytes>>> {
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(format!("{}{}", self.prefix, call.path))
            .header(HOST, format!("{}:{}", self.host, self.port))
            .header(USER_AGENT, AGENT);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        if let Some(key) = &call.idempotency_key {
            request = request.header("idempotency-key", format!("\"{key}\""));
        }
        if call.body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        request.body(Full::from(call.body.clone().unwrap_or_default()))
    }

    fn unreachable(&self, why: impl Into<String>) -> Failure {
        Failure::Unreachable { url: self.url.clone(), why: why.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_urls_are_taken() {
        for (url, host, port, prefix) in [
            ("http://127.0.0.1:8080", "127.0.0.1", 8080, ""),
            ("http://posthaste/", "posthaste", 80, ""),
            ("https://posthaste.example", "posthaste.example", 443, ""),
            ("http://[::1]:81/behind/", "[::1]", 81, "/behind"),
        ] {
            let server = ApiClient::new(url, None).expect(url);
            assert_eq!((server.host.as_str(), server.port, server.prefix.as_str()), (host, port, prefix));
        }
        for url in ["", "127.0.0.1:8080", "ftp://h", "http://", "http://u:p@h", "http://h/?a"] {
            assert!(matches!(ApiClient::new(url, None), Err(Failure::Usage(_))), "{url}");
        }
        assert!(ApiClient::new("http://h", Some("a\nb")).is_err());
    }
}
