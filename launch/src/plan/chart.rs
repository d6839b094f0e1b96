//! Draws the plan of a workflow as a Gantt chart in SVG.

use std::fmt::Write;

use super::Planned;
use super::units::{bytes, seconds};

/// Width of the chart in pixels, which fits a screen and a printed page.
const WIDTH: f64 = 1200.0;
const NAMES: f64 = 160.0;
const LINE: f64 = 22.0;
const TOP: f64 = 30.0;
const AXIS: f64 = 30.0;
/// Estimated width of a letter in pixels. Names of tasks that do not fit their boxes are left out.
const LETTER: f64 = 6.5;
const MARKS: u32 = 8;
/// Colours of tasks: the palette of Okabe and Ito, which readers with red-green colour blindness can distinguish.
const COLOURS: [&str; 6] = ["#56b4e9", "#e69f00", "#009e73", "#f0e442", "#cc79a7", "#d55e00"];

pub(super) fn svg(planned: &Planned) -> String {
    let Planned { workflow, cluster, best, name, platform } = planned;
    let plan = &best.plan;
    let used: Vec<usize> = (0..cluster.len()).filter(|&p| !plan.orders[p].is_empty()).collect();
    let height = TOP + LINE * used.len() as f64 + AXIS;
    let scale = if plan.makespan > 0.0 { (WIDTH - NAMES) / plan.makespan } else { 0.0 };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <text x=\"4\" y=\"18\" font-size=\"13\">{} on {}: {} by {}</text>\n",
        escaped(name),
        escaped(platform),
        seconds(plan.makespan),
        best.planner
    );
    for (line, &p) in used.iter().enumerate() {
        let y = TOP + LINE * line as f64;
        let processor = &cluster.processors()[p];
        let _ = writeln!(
            svg,
            "<text x=\"4\" y=\"{}\">{}<title>peak {} of {}</title></text>",
            y + LINE - 7.0,
            escaped(&processor.name),
            bytes(best.certificate.peak[p]),
            bytes(processor.memory)
        );
        for (number, &task) in plan.orders[p].iter().enumerate() {
            let (x, width) =
                (NAMES + scale * plan.start[task], scale * (plan.finish[task] - plan.start[task]));
            let name = escaped(workflow.name(task));
            let _ = write!(
                svg,
                "<rect x=\"{x:.2}\" y=\"{y}\" width=\"{width:.2}\" height=\"{}\" fill=\"{}\" stroke=\"#444\" stroke-width=\"0.4\"><title>{name}: \
                 {} to {}, needs {}</title></rect>",
                LINE - 2.0,
                COLOURS[number % COLOURS.len()],
                seconds(plan.start[task]),
                seconds(plan.finish[task]),
                bytes(workflow.requirement(task, plan.task_memory)),
            );
            if LETTER * workflow.name(task).chars().count() as f64 + 4.0 <= width {
                let _ = write!(
                    svg,
                    "<text x=\"{:.2}\" y=\"{}\" pointer-events=\"none\">{name}</text>",
                    x + 3.0,
                    y + LINE - 8.0
                );
            }
            svg.push('\n');
        }
    }
    for mark in 0..=MARKS {
        let part = f64::from(mark) / f64::from(MARKS);
        let (x, y) = (NAMES + part * (WIDTH - NAMES), height - AXIS);
        let anchor = if mark == MARKS { "end" } else { "middle" };
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.2}\" y1=\"{TOP}\" x2=\"{x:.2}\" y2=\"{}\" stroke=\"#bbb\" stroke-width=\"0.5\"/>\
             <text x=\"{x:.2}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
            y + 4.0,
            y + 17.0,
            seconds(part * plan.makespan)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in armature_text::shown(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}
