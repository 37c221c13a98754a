//! Lists the phrases that are always wrong, each with the standard term.

pub(crate) struct Phrase {
    pub(crate) regex: &'static str,
    pub(crate) instead: &'static str,
    pub(crate) bad: &'static str,
    pub(crate) good: &'static str,
}

const fn phrase(regex: &'static str, instead: &'static str, bad: &'static str, good: &'static str) -> Phrase {
    Phrase { regex, instead, bad, good }
}

pub(crate) const PHRASES: &[Phrase] = &[
    phrase(r"(?i)\bbeside\b", "next to", "runs beside the API", "runs next to the API, and besides"),
    phrase(r"(?i)\banew\b", "again", "is planned anew", "is planned again"),
    phrase(r"(?i)\blately\b", "recently", "failed lately", "failed recently"),
    phrase(r"(?i)\bdear(er|est|ly)?\b", "expensive", "a dear statement", "an expensive statement"),
    phrase(r"(?i)\b(rung|bells?)\b", "woken up", "the bell is rung", "the worker is woken up"),
    phrase(
        r"(?i)\b(told|retold)\b",
        "notified, returned or stated",
        "admission is told of it",
        "admission is notified",
    ),
    phrase(
        r"(?i)\bnow and then\b",
        "occasionally, or how often",
        "it scans now and then",
        "it scans every 5 s",
    ),
    phrase(
        r"(?i)\b(somebody|whoever)\b",
        "the caller, the operator or another process",
        "somebody changed it",
        "the operator changed it",
    ),
    phrase(
        r"(?i)\b(given|gave|gives|giving) up\b",
        "dead-lettered, or stopped",
        "a delivery that is given up",
        "it is dead-lettered",
    ),
    phrase(
        r"(?i)\bunless (said|told) otherwise\b",
        "[default: …]",
        "a day unless said otherwise",
        "default: a day",
    ),
    phrase(
        r"(?i)\bwhat (came|comes|had come) of\b",
        "the outcome of",
        "what came of it",
        "the outcome of it",
    ),
    phrase(r"(?i)\b(half|most) took at most\b", "p50", "half took at most 3 ms", "p50 3 ms"),
    phrase(r"(?i)\bclocks? differs?\b", "clock skew", "the clocks differ", "a clock skew of 2 s"),
    phrase(r"(?i)\bmend(s|ed|ing)?\b", "fix", "the repair mends it", "fixes it, as recommended"),
    phrase(r"(?i)\bdawdl", "is slow", "a receiver that dawdles", "a receiver that is slow"),
    phrase(r"(?i)\bailing\b", "failing", "an ailing receiver", "a failing receiver"),
    phrase(
        r"(?i)\bbr(ings?|ought|inging) the log to\b",
        "flush",
        "brings the log to the disk",
        "flushes the log",
    ),
    phrase(
        r"(?i)\b(store|database) (is|was) away\b",
        "store unavailable",
        "the store is away",
        "store unavailable",
    ),
    phrase(
        r"(?i)\b(a|one|each|every|first|last|next) look\b",
        "a poll, a scan or a check",
        "at the next look",
        "at the next poll",
    ),
    phrase(r"(?i)\b(looks|looked) (again|anew|for itself)\b", "polls", "it looks again", "it polls again"),
    phrase(r"(?i)\bnothing if\b", "None if", "Nothing if it was deleted", "None if it was deleted"),
    phrase(
        r"^(Answers|Tells|Says) (whether|how|what|which|why|if|when)\b",
        "Returns",
        "Answers whether it is due",
        "Returns whether it is due",
    ),
    phrase(r"(?i)\bwhat waits\b", "the backlog", "what waits before the router", "the backlog of the router"),
    phrase(
        r"(?i)\bruns? out by (itself|themselves)\b",
        "expires",
        "the lease runs out by itself",
        "the lease expires",
    ),
    phrase(
        r"(?i)\bas the settings say\b",
        "the server's setting",
        "as the settings say",
        "the server's setting",
    ),
    phrase(r"(?i)\bin the hands of\b", "used by", "in the hands of another role", "used by another role"),
    phrase(r"(?i)\bgiven back\b", "released", "the job is given back", "the job is released"),
    phrase(r"(?i)\bof late\b", "recently", "failed of late", "failed recently, of latency"),
    phrase(r"(?i)\bsits? on\b", "holds", "sits on a slot", "holds a slot"),
];
