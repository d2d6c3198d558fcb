//! Text formats of a scrape.

use super::Metrics;
use http::HeaderMap;
use http::header::ACCEPT;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use std::fmt;

/// Text format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Prometheus text format, version 0.0.4.
    Prometheus,
    /// `OpenMetrics` text format, version 1.0.0.
    OpenMetrics,
}

impl Format {
    /// Returns the media type.
    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Returns the format that a client accepts: `OpenMetrics` if the client prefers that format to plain text.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Self {
        let values = headers
            .get_all(ACCEPT)
            .iter()
            .filter_map(|value| value.to_str().ok());
        let (mut open, mut plain) = (0.0_f32, 0.0_f32);
        for range in values.flat_map(|value| value.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let quality = match parts.next() {
                Some("application/openmetrics-text") => &mut open,
                Some("text/plain") => &mut plain,
                _ => continue,
            };
            let given = parts.find_map(|part| part.strip_prefix("q="));
            *quality = quality.max(given.map_or(1.0, |q| q.parse().unwrap_or(0.0)));
        }
        if open > 0.0 && open >= plain {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }
}

impl Metrics {
    /// Encodes the current values as Prometheus text and as `OpenMetrics` text.
    ///
    /// # Errors
    /// Returns an error if a value cannot be encoded.
    pub fn texts(&self) -> Result<(String, String), fmt::Error> {
        let mut registry = Registry::default();
        self.register(&mut registry);
        let mut open = String::new();
        encode(&mut open, &registry)?;
        Ok((prometheus_text(&open), open))
    }
}

/// Converts the `OpenMetrics` text of this module to the Prometheus format. Metrics of the type `unknown`
/// become counters without the suffix `_total`, as in the Go provider.
fn prometheus_text(open: &str) -> String {
    let mut text = String::with_capacity(open.len());
    let mut help = None;
    for line in open.lines() {
        if line == "# EOF" {
            break;
        }
        if let Some(described) = line.strip_prefix("# HELP ") {
            help = described.split_once(' ');
            continue;
        }
        let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' ')) else {
            text.push_str(&go_bound(line).unwrap_or_else(|| line.to_owned()));
            text.push('\n');
            continue;
        };
        let (suffix, kind) = match kind {
            "counter" => ("_total", "counter"),
            "unknown" => ("", "counter"),
            kind => ("", kind),
        };
        if let Some((_, help)) = help.take() {
            text.push_str(&format!("# HELP {name}{suffix} {help}\n"));
        }
        text.push_str(&format!("# TYPE {name}{suffix} {kind}\n"));
    }
    text
}

/// Formats the bucket bound as the Go provider does. Returns `None` for a metric that the Go provider lacks.
fn go_bound(line: &str) -> Option<String> {
    let (name, rest) = line
        .split_once("{le=\"")
        .filter(|_| line.starts_with("provider_"))?;
    let (bound, rest) = rest.split_once('"')?;
    let bound: f64 = bound.parse().ok().filter(|bound: &f64| bound.is_finite())?;
    Some(format!("{name}{{le=\"{}\"{rest}", go_float(bound)))
}

/// Formats a number as `strconv.FormatFloat` with the format `g` and the shortest precision.
fn go_float(number: f64) -> String {
    let scientific = format!("{number:e}");
    match scientific
        .split_once('e')
        .map(|(digits, exponent)| (digits, exponent.parse()))
    {
        Some((digits, Ok(exponent @ (..=-5 | 6..)))) => format!("{digits}e{exponent:+03}"),
        _ => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Histogram, Measure, MetricSource};
    use super::*;

    #[derive(Debug)]
    struct Source;

    impl MetricSource for Source {
        fn measures(&self) -> Vec<Measure> {
            let duration = Histogram::new(vec![(0.5, 2), (f64::INFINITY, 1)], 2.5);
            vec![
                Measure::counter("akash_provider_bids", "Bids").with([], 2.0),
                Measure::go_counter("provider_bid", "Bids").with([("action", "open")], 2.0),
                Measure::gauge("nodes", "Nodes").with([("name", "a \"b\"\n\\")], 1.0),
                Measure::histogram("seconds", "Seconds").with_histogram([("kind", "x")], duration),
            ]
        }
    }

    const SAMPLES: &str = "akash_provider_bids_total 4.0\n\
        provider_bid{action=\"open\"} 4.0\n\
        nodes{name=\"a \\\"b\\\"\\n\\\\\"} 2.0\n\
        seconds_sum{kind=\"x\"} 2.5\n\
        seconds_count{kind=\"x\"} 3\n\
        seconds_bucket{le=\"0.5\",kind=\"x\"} 2\n\
        seconds_bucket{le=\"+Inf\",kind=\"x\"} 3\n\
        akash_provider_metrics_dropped_series{reason=\"limit\"} 1.0\n";

    #[test]
    fn both_formats_have_the_same_samples() {
        let metrics = Metrics::default();
        metrics.add(Source);
        metrics.add(Source);
        let (prometheus, open) = metrics.texts().unwrap();
        let samples = |text: &str| -> String {
            let samples = text.lines().filter(|line| !line.starts_with('#'));
            samples.map(|line| line.to_owned() + "\n").collect()
        };
        assert_eq!(samples(&prometheus), SAMPLES);
        assert_eq!(samples(&open), SAMPLES);
        let types = |text: &str, name: &str| text.contains(&format!("# TYPE {name}\n"));
        assert!(types(&prometheus, "akash_provider_bids_total counter"));
        assert!(prometheus.contains("# HELP akash_provider_bids_total Bids\n"));
        assert!(types(&prometheus, "provider_bid counter"));
        assert!(types(&open, "akash_provider_bids counter"));
        assert!(types(&open, "provider_bid unknown"));
        assert!(open.ends_with("# EOF\n") && !prometheus.contains("# EOF"));
    }

    /// Source of histograms with the bounds of the Go provider.
    #[derive(Debug)]
    struct Bounds;

    impl MetricSource for Bounds {
        fn measures(&self) -> Vec<Measure> {
            let bounds = [150_000.0, 1_200_000.0, 76_800_000.0, f64::INFINITY].map(|bound| (bound, 1));
            let duration = Histogram::new(bounds.into(), 1.0);
            let named = |name| Measure::histogram(name, "x").with_histogram([], duration.clone());
            vec![named("provider_x"), named("akash_provider_x")]
        }
    }

    #[test]
    fn bounds_of_a_go_name_have_the_form_of_go_in_the_prometheus_format() {
        let metrics = Metrics::default();
        metrics.add(Bounds);
        let (prometheus, open) = metrics.texts().unwrap();
        let bounds = |text: &str, name: &str| -> Vec<String> {
            let prefix = format!("{name}_bucket{{le=\"");
            let lines = text.lines().filter_map(|line| line.strip_prefix(&prefix));
            lines
                .map(|line| line.split_once('"').unwrap().0.to_owned())
                .collect()
        };
        let floats = ["150000.0", "1200000.0", "76800000.0", "+Inf"];
        assert_eq!(
            bounds(&prometheus, "provider_x"),
            ["150000", "1.2e+06", "7.68e+07", "+Inf"]
        );
        for (text, name) in [
            (&open, "provider_x"),
            (&open, "akash_provider_x"),
            (&prometheus, "akash_provider_x"),
        ] {
            assert_eq!(bounds(text, name), floats);
        }
        let small = [1e-5, 0.5, 999_999.0, 1e6, 1.5e12].map(go_float);
        assert_eq!(small, ["1e-05", "0.5", "999999", "1e+06", "1.5e+12"]);
    }

    /// Source of a gauge with one label value.
    #[derive(Debug)]
    struct Labelled(String);

    impl MetricSource for Labelled {
        fn measures(&self) -> Vec<Measure> {
            vec![Measure::gauge("classes", "Classes").with([("class", &self.0)], 1.0)]
        }
    }

    #[test]
    fn long_label_values_with_quotes_and_line_breaks_stay_on_one_line() {
        let sample = |value: &str| -> Vec<String> {
            let metrics = Metrics::default();
            metrics.add(Labelled(value.to_owned()));
            let (prometheus, open) = metrics.texts().unwrap();
            let samples = |text: &str| -> Vec<String> {
                let lines = text.lines().filter(|line| !line.starts_with('#'));
                let lines = lines.filter(|line| !line.starts_with("akash_provider_metrics_"));
                lines.map(str::to_owned).collect()
            };
            assert_eq!(samples(&prometheus), samples(&open));
            samples(&prometheus)
        };
        // 4 KiB, of which 128 bytes are reported.
        let hostile = "\"\n\\}".repeat(1024);
        let escaped = "\\\"\\n\\\\}".repeat(32);
        assert_eq!(sample(&hostile), [format!("classes{{class=\"{escaped}\"}} 1.0")]);
        for (bytes, reported) in [(128, 128), (129, 128)] {
            let value = "a".repeat(reported);
            assert_eq!(
                sample(&"a".repeat(bytes)),
                [format!("classes{{class=\"{value}\"}} 1.0")]
            );
        }
    }

    #[test]
    fn the_accept_header_selects_the_format() {
        let format = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().unwrap());
            Format::from_headers(&headers)
        };
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
            text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
        assert_eq!(format(prometheus), Format::OpenMetrics);
        assert_eq!(format("application/openmetrics-text"), Format::OpenMetrics);
        for plain in [
            "*/*",
            "",
            "text/plain, application/openmetrics-text;q=0.5",
            "application/openmetrics-text;q=0",
        ] {
            assert_eq!(format(plain), Format::Prometheus, "{plain}");
        }
        assert_eq!(Format::from_headers(&HeaderMap::new()), Format::Prometheus);
    }
}
