//! Sends a request to the server over HTTP/1.1 and reads the response. Every wait has a timeout, and the size of a
//! response is limited.

use super::call::Condition;
use super::reach::has_invalid_port;
use super::{Call, Failure, json_text, tls};
use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CONTENT_TYPE, ETAG, HOST, HeaderName, IF_MATCH, IF_NONE_MATCH, USER_AGENT,
};
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The timeout for opening a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The timeout for receiving a response. A verification takes longest, because it waits for a receiver that may not
/// respond.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(120);
/// The maximum size of a response, in bytes. The largest page has 200 items with 4 MiB of payloads.
const RESPONSE_BYTES_MAX: usize = 16 << 20;
const AGENT: &str = concat!("posthaste-cli/", env!("CARGO_PKG_VERSION"));

/// An HTTP client for one server, with the API key that it sends.
#[derive(Clone)]
pub(crate) struct ApiClient {
    /// The URL as given by the user, for error messages.
    url: String,
    host: String,
    port: u16,
    is_tls: bool,
    /// The path of the URL, which is prepended to the path of every call.
    prefix: String,
    authorization: Option<HeaderValue>,
}

/// A completely received response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: StatusCode,
    headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Response {
    /// Returns the value of a header, or `None` if it is absent or not text.
    pub(crate) fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

impl ApiClient {
    /// Creates a client for the server at `url`.
    ///
    /// # Errors
    ///
    /// Returns a usage error if the URL or the key is invalid.
    pub(crate) fn new(url: &str, key: Option<&str>) -> Result<Self, Failure> {
        let wrong = |why: &str| Failure::Usage(format!("server URL {url:?}: {why}"));
        let parsed: Uri = url.parse().map_err(|_| wrong("expected a URL such as http://127.0.0.1:8080"))?;
        match parsed.scheme_str() {
            Some("http" | "https") => {}
            Some(_) | None => return Err(wrong("expected a URL that begins with http:// or https://")),
        }
        let is_tls = parsed.scheme_str() == Some("https");
        let host =
            parsed.host().filter(|host| !host.is_empty()).ok_or_else(|| wrong("the host is missing"))?;
        if parsed.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(Failure::Usage(
                "the server URL must not contain a user or password: pass the key with --key".to_owned(),
            ));
        }
        if has_invalid_port(&parsed) {
            return Err(wrong("the port must be a number up to 65535"));
        }
        if parsed.query().is_some() {
            return Err(wrong("a query is not allowed"));
        }
        let authorization = key.map(|key| HeaderValue::from_str(&format!("Bearer {key}"))).transpose();
        let mut authorization = authorization
            .map_err(|_| Failure::Usage("the API key contains characters that no key has".to_owned()))?;
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

    /// Sends a call and returns the response, whatever its status.
    pub(crate) async fn exchange(&self, call: &Call) -> Result<Response, Failure> {
        let stream = self.connect().await?;
        let exchange = async {
            match self.is_tls {
                true => self.send(tls::connect(self.name(), stream).await?, call).await,
                false => self.send(stream, call).await,
            }
        };
        let late =
            || self.unreachable(format!("no complete response within {}s", RESPONSE_TIMEOUT.as_secs()));
        let exchanged = timeout(RESPONSE_TIMEOUT, exchange).await.map_err(|_| late())?;
        exchanged.map_err(|error| self.unreachable(format!("{error:#}")))
    }

    /// Sends a call and returns the response. A status other than 2xx is an error.
    async fn accepted(&self, call: &Call) -> Result<Response, Failure> {
        let response = self.exchange(call).await?;
        match response.status.is_success() {
            true => Ok(response),
            false => Err(Failure::from_response(response.status.as_u16(), &response.body)),
        }
    }

    /// Sends a call and returns the body of the response. A status other than 2xx is an error.
    pub(crate) async fn call(&self, call: &Call) -> Result<String, Failure> {
        self.text(&self.accepted(call).await?.body)
    }

    fn text(&self, body: &Bytes) -> Result<String, Failure> {
        String::from_utf8(body.to_vec()).map_err(|_| self.unreadable("it is not UTF-8"))
    }

    /// Sends a call and returns the body of the response as text and as JSON. An empty body becomes `Null`.
    ///
    /// # Errors
    ///
    /// Returns an error if the call fails, or if the body is not JSON or lacks the call's required field: an unexpected
    /// response must not be mistaken for an empty one.
    pub(crate) async fn call_json(&self, call: &Call) -> Result<(String, Value), Failure> {
        let text = self.call(call).await?;
        let value = self.json(call, &text)?;
        Ok((text, value))
    }

    /// Sends a call and returns the body of the response as JSON, and the ETag of the object that it shows.
    ///
    /// # Errors
    ///
    /// Returns an error like [`call_json`](Self::call_json), and if the response has no ETag.
    pub(crate) async fn call_tagged(&self, call: &Call) -> Result<(Value, String), Failure> {
        let response = self.accepted(call).await?;
        let value = self.json(call, &self.text(&response.body)?)?;
        let tag = response.header(&ETAG).ok_or_else(|| self.unreadable("it has no ETag"))?;
        Ok((value, tag.to_owned()))
    }

    fn json(&self, call: &Call, text: &str) -> Result<Value, Failure> {
        let value = if text.is_empty() { Ok(Value::Null) } else { json_text::parse(text) };
        let value = value.map_err(|why| self.unreadable(&why))?;
        match call.required.filter(|field| value.get(field).is_none()) {
            Some(field) => Err(self.unreadable(&format!("it has no field {field}"))),
            None => Ok(value),
        }
    }

    fn unreadable(&self, why: &str) -> Failure {
        Failure::Unreadable { text: format!("cannot read the response of {}: {why}", self.url) }
    }

    async fn send<S>(&self, stream: S, call: &Call) -> anyhow::Result<Response>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let connection = tokio::spawn(connection);
        let answer = sender.send_request(self.request(call)?).await?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let body = Limited::new(answer.into_body(), RESPONSE_BYTES_MAX).collect().await;
        connection.abort();
        Ok(Response { status, headers, body: body.map_err(anyhow::Error::from_boxed)?.to_bytes() })
    }

    /// Returns the host without the brackets of an IPv6 address, for name resolution and certificate verification.
    fn name(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    async fn connect(&self) -> Result<TcpStream, Failure> {
        match timeout(CONNECT_TIMEOUT, TcpStream::connect((self.name(), self.port))).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(self.unreachable(error.to_string())),
            Err(_) => Err(self.unreachable(format!("no connection within {}s", CONNECT_TIMEOUT.as_secs()))),
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
        match &call.condition {
            Some(Condition::IfMatch(tag)) => request = request.header(IF_MATCH, tag),
            Some(Condition::IfNoneMatch) => request = request.header(IF_NONE_MATCH, "*"),
            None => {}
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
    fn server_urls_are_parsed_or_refused() {
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
