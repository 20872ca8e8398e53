//! The W3C trace context of the current span of `tracing`: feature `tracing`. Without it, nobody has one.

/// The two headers of <https://www.w3.org/TR/trace-context/>.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Trace {
    pub(crate) parent: String,
    pub(crate) state: Option<String>,
}

/// The context of the current span; `None` where none is current, or OpenTelemetry does not trace it.
#[cfg(not(feature = "tracing"))]
pub(crate) const fn of_current_span() -> Option<Trace> {
    None
}

/// The context of the current span; `None` where none is current, or OpenTelemetry does not trace it.
#[cfg(feature = "tracing")]
pub(crate) fn of_current_span() -> Option<Trace> {
    use opentelemetry::trace::TraceContextExt;
    use tracing_opentelemetry::OpenTelemetrySpanExt;

    let context = tracing::Span::current().context();
    let span = context.span();
    let span = span.span_context();
    if !span.is_valid() {
        return None;
    }
    let (trace_id, span_id) = (span.trace_id(), span.span_id());
    // Of the flags only this one is passed on; others may mean something else in a later version.
    let flags = u8::from(span.is_sampled());
    let state = span.trace_state().header();
    // One that does not fit is left out, as the standard has it: it must never stop an event.
    let fits = crate::limits::check_context(None, None, Some(&state)).is_ok();
    Some(Trace {
        parent: format!("00-{trace_id}-{span_id}-{flags:02x}"),
        state: (fits && !state.is_empty()).then_some(state),
    })
}

#[cfg(test)]
#[cfg(all(feature = "tracing", feature = "testing"))]
mod tests {
    use opentelemetry::trace::{
        SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState, TracerProvider,
    };
    use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
    use tracing::Span;
    use tracing_opentelemetry::OpenTelemetrySpanExt;
    use tracing_subscriber::layer::SubscriberExt;

    use crate::outbox::Outbox;
    use crate::{Context, JsonEvent};

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    /// Runs `work` where OpenTelemetry traces every span, with this sampler.
    fn traced<T>(sampler: Sampler, work: impl FnOnce() -> T) -> T {
        let provider = SdkTracerProvider::builder().with_sampler(sampler).build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("tests"));
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, work)
    }

    /// What came from the caller of a service: its trace, its span, and this state.
    fn remote(state: &str) -> opentelemetry::Context {
        opentelemetry::Context::new().with_remote_span_context(SpanContext::new(
            TraceId::from_hex("0af7651916cd43dd8448eb211c80319c").unwrap(),
            SpanId::from_hex("b7ad6b7169203331").unwrap(),
            TraceFlags::SAMPLED,
            true,
            state.parse::<TraceState>().unwrap(),
        ))
    }

    fn request(state: &str) -> Span {
        let span = tracing::info_span!("request");
        span.set_parent(remote(state)).unwrap();
        span
    }

    fn published(outbox: &Outbox) -> (Option<String>, Option<String>) {
        let envelope = outbox.json_envelope(&JsonEvent::new("thing.moved", 1, "thing", "{}")).unwrap();
        (envelope.traceparent, envelope.tracestate)
    }

    #[test]
    fn an_event_carries_the_trace_of_the_span_in_which_it_is_published() {
        traced(Sampler::AlwaysOn, || {
            let outbox = Outbox::new();
            let span = request("vendor=a,other=b");
            let (parent, state) = span.in_scope(|| published(&outbox));
            let parent = parent.unwrap();
            let parts: Vec<_> = parent.split('-').collect();
            let [version, trace, id, flags] = parts[..] else { panic!("{parent}") };
            assert_eq!((version, trace, flags), ("00", "0af7651916cd43dd8448eb211c80319c", "01"));
            assert_eq!(
                id,
                span.context().span().span_context().span_id().to_string(),
                "this span, not its parent"
            );
            assert_eq!(state.as_deref(), Some("vendor=a,other=b"));

            let inner = span.in_scope(|| tracing::info_span!("change").in_scope(|| published(&outbox)));
            let inner = inner.0.unwrap();
            assert_ne!(inner, parent);
            assert_eq!(inner[..36], parent[..36], "another span of the same trace");
        });
    }

    #[test]
    fn what_the_context_says_wins() {
        traced(Sampler::AlwaysOn, || {
            let outbox = Outbox::new().with_context(Context::new().trace(PARENT, None));
            let found = request("vendor=a").in_scope(|| published(&outbox));
            assert_eq!(found, (Some(PARENT.to_owned()), None), "and no state of another trace");
        });
    }

    #[test]
    fn a_trace_that_is_not_sampled_says_so() {
        traced(Sampler::AlwaysOff, || {
            let (parent, _) = request("").in_scope(|| published(&Outbox::new()));
            assert!(parent.as_deref().is_some_and(|parent| parent.ends_with("-00")), "{parent:?}");
        });
    }

    #[test]
    fn a_state_that_does_not_fit_is_left_out() {
        traced(Sampler::AlwaysOn, || {
            let member = |n| format!("v{n}={}", "x".repeat(30));
            let long: Vec<_> = (0..20).map(member).collect();
            let (parent, state) = request(&long.join(",")).in_scope(|| published(&Outbox::new()));
            assert!(parent.is_some());
            assert_eq!(state, None);
        });
    }

    #[test]
    fn without_a_span_there_is_no_trace() {
        traced(Sampler::AlwaysOn, || assert_eq!(published(&Outbox::new()), (None, None)));
        // A span that only `tracing` knows.
        tracing::subscriber::with_default(tracing_subscriber::registry(), || {
            assert_eq!(tracing::info_span!("request").in_scope(|| published(&Outbox::new())), (None, None));
        });
    }
}
