//! Draws how a store and a recall grow with the ledger, from the reports of several runs of `agent-memory bench`, as SVG:
//!
//! `cargo run -p agent-memory-cli --example growth -- growth.svg sqlite-10000.json sqlite-100000.json postgres-10000.json`

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context as _, ensure};
use plotters::coord::Shift;
use plotters::prelude::*;
use serde_json::Value;

/// The workloads that are drawn, each with what stands above it.
const PANELS: [(&str, &str); 2] =
    [("store", "One store after the other"), ("under, dense", "The newest 50 under half of the ledger")];
const SIZE: (u32, u32) = (1_000, 420);
const COLORS: [RGBColor; 4] = [BLUE, RED, GREEN, MAGENTA];

/// The median time in microseconds by the number of rows, of each engine.
type Lines = BTreeMap<String, Vec<(f64, f64)>>;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let target = arguments.next().context("the file to write, and the reports to read, as arguments")?;
    growth(&target, &arguments.collect::<Vec<_>>())
}

/// Writes the figure that is made of these reports.
pub(crate) fn growth(target: &str, files: &[String]) -> anyhow::Result<()> {
    let reports = files.iter().map(|file| {
        let json = fs::read_to_string(file).with_context(|| format!("{file} can't be read"))?;
        serde_json::from_str(&json).with_context(|| format!("{file} is no report"))
    });
    let reports = reports.collect::<anyhow::Result<Vec<Value>>>()?;
    ensure!(!reports.is_empty(), "there are no reports to draw");
    let figure = SVGBackend::new(target, SIZE).into_drawing_area();
    figure.fill(&WHITE)?;
    for (panel, (workload, title)) in figure.split_evenly((1, PANELS.len())).iter().zip(PANELS) {
        draw(panel, title, &lines(&reports, workload)?)?;
    }
    Ok(figure.present()?)
}

/// What the reports tell of one workload with one client.
fn lines(reports: &[Value], workload: &str) -> anyhow::Result<Lines> {
    let mut lines = Lines::new();
    for report in reports {
        let engine = report["engine"].as_str().context("a report without an engine")?;
        let rows = report["rows"].as_f64().context("a report without rows")?;
        let mut measured = report["workloads"].as_array().into_iter().flatten();
        let median = measured.find(|one| one["name"] == workload && one["clients"] == 1).map(|one| &one["p50"]);
        let median = median.and_then(Value::as_f64).with_context(|| format!("a report without {workload}"))?;
        lines.entry(engine.to_owned()).or_default().push((rows, median));
    }
    lines.values_mut().for_each(|line| line.sort_by(|left, right| left.0.total_cmp(&right.0)));
    Ok(lines)
}

/// Both axes are logarithmic: what costs the same at any size is level, what goes over the whole ledger is steep.
fn draw(panel: &DrawingArea<SVGBackend<'_>, Shift>, title: &str, lines: &Lines) -> anyhow::Result<()> {
    let around = |of: fn(&(f64, f64)) -> f64| {
        let values = || lines.values().flatten().map(of);
        values().fold(f64::MAX, f64::min) / 2.0..values().fold(f64::MIN, f64::max) * 2.0
    };
    let (rows, micros) = (around(|point| point.0), around(|point| point.1));
    // Labels stand at powers of ten, of which some values have none below them.
    let micros = 10_f64.powf(micros.start.log10().floor())..micros.end;
    let mut chart = ChartBuilder::on(panel)
        .caption(title, ("sans-serif", 18))
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(rows.log_scale(), micros.log_scale())?;
    let whole = |number: &f64| format!("{number:.0}");
    let mut mesh = chart.configure_mesh();
    mesh.x_label_formatter(&whole).y_label_formatter(&whole).x_desc("memories").y_desc("median, µs").draw()?;
    for ((engine, line), color) in lines.iter().zip(COLORS.into_iter().cycle()) {
        let series = LineSeries::new(line.iter().copied(), color).point_size(3);
        let key = move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color);
        chart.draw_series(series)?.label(engine).legend(key);
    }
    let mut keys = chart.configure_series_labels();
    Ok(keys.position(SeriesLabelPosition::LowerRight).background_style(WHITE).border_style(BLACK).draw()?)
}
