//! Line charts of numbers over time, with a description in words.

use maud::{Markup, html};

/// The size of a chart in its own units. The style sheet sets the size on the page.
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 100.0;

/// A line chart of one number over time.
#[derive(Debug)]
pub(super) struct Chart<'a> {
    /// The id of the chart in the page, for its description.
    pub(super) id: &'a str,
    pub(super) title: &'a str,
    pub(super) unit: &'a str,
    /// One value per sample, the oldest first; `None` if nothing was measured.
    pub(super) values: Vec<Option<f64>>,
    /// The number of samples that the chart has room for.
    pub(super) room: usize,
}

impl Chart<'_> {
    pub(super) fn figure(&self) -> Markup {
        let (title, words) = (format!("{}-title", self.id), format!("{}-words", self.id));
        let greatest = self.greatest();
        html! {
            figure {
                figcaption { strong { (self.title) } ": " (self.in_words()) }
                svg class="chart" role="img" aria-labelledby=(title) aria-describedby=(words) viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="none" focusable="false" {
                    title id=(title) { (self.title) }
                    desc id=(words) { (self.in_words()) }
                    @for line in self.lines(greatest) { polyline points=(line) {} }
                }
            }
        }
    }

    fn greatest(&self) -> f64 {
        self.values.iter().flatten().copied().fold(0.0, f64::max)
    }

    fn in_words(&self) -> String {
        let known: Vec<_> = self.values.iter().flatten().copied().collect();
        let Some(last) = known.last() else { return "nothing was measured yet".to_owned() };
        let mean = known.iter().sum::<f64>() / known.len() as f64;
        let (unit, greatest) = (self.unit, self.greatest());
        let now = if self.values.last() == Some(&None) { "no answer now, before".to_owned() } else { "now".to_owned() };
        format!("{now} {last:.2} {unit}, {mean:.2} {unit} in the mean, {greatest:.2} {unit} at most")
    }

    /// The points of each line. A line ends at a sample without a value.
    fn lines(&self, greatest: f64) -> Vec<String> {
        let step = WIDTH / (self.room.max(2) - 1) as f64;
        let begin = self.room.saturating_sub(self.values.len());
        let points = self.values.iter().enumerate().map(|(place, value)| {
            let value = (*value)?;
            // Leaves a margin above the greatest value.
            let share = if greatest > 0.0 { value / greatest * 0.9 } else { 0.0 };
            Some(format!("{:.1},{:.1}", (begin + place) as f64 * step, HEIGHT - 2.0 - share * (HEIGHT - 4.0)))
        });
        let points: Vec<_> = points.collect();
        points
            .split(Option::is_none)
            .filter(|line| line.len() > 1)
            .map(|line| line.iter().flatten().map(String::as_str).collect::<Vec<_>>().join(" "))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(values: &[Option<f64>]) -> Chart<'static> {
        Chart { id: "x", title: "Latency", unit: "ms", values: values.to_vec(), room: 5 }
    }

    #[test]
    fn a_line_ends_where_nothing_was_measured() {
        let chart = chart(&[Some(0.0), Some(2.0), None, Some(4.0), Some(1.0)]);
        assert_eq!(chart.lines(chart.greatest()), ["0.0,98.0 150.0,54.8", "450.0,11.6 600.0,76.4"]);
        assert_eq!(chart.in_words(), "now 1.00 ms, 1.75 ms in the mean, 4.00 ms at most");
    }

    #[test]
    fn few_values_stand_at_the_end() {
        assert_eq!(chart(&[Some(1.0), Some(1.0)]).lines(1.0), ["450.0,11.6 600.0,11.6"]);
        assert!(chart(&[Some(1.0)]).lines(1.0).is_empty());
        assert_eq!(chart(&[]).in_words(), "nothing was measured yet");
        assert!(chart(&[Some(3.0), None]).in_words().starts_with("no answer now, before 3.00 ms"));
        assert_eq!(chart(&[Some(0.0), Some(0.0)]).lines(0.0), ["450.0,98.0 600.0,98.0"]);
    }
}
