//! Profiles: text files with the time and the output size of each pipeline stage for each query of a run.
//!
//! ```text
//! # ferret profile 1
//! # speed 2876000000 operations/s
//! # 3500 images, k 10
//! item,input_bytes,load_us,load_bytes,seg_us,seg_bytes,ext_us,ext_bytes,ind_us,ind_bytes,rank_us,rank_bytes,out_us,out_bytes
//! 0,7431,310,73748,2105,65552,110,1012,3200,2100,20110,420,5,405
//! ```
//!
//! Times are whole microseconds on the recording machine, rounded up; sizes are the bytes that leave the stage. The speed converts times into
//! work: the work of an item at a stage is its time multiplied by the speed, in operations of [`armature_apps::spin`]. Other lines that begin
//! with `#` are remarks.

use crate::timing::STAGES;
use armature_apps::names;
use std::fmt::{self, Write as _};
use std::path::Path;

const TITLE: &str = "# ferret profile 1";
const SPEED: &str = "# speed ";
const SPEED_UNIT: &str = " operations/s";
/// Maximum time of a stage in microseconds (1000 s), and maximum size of its output in bytes (1 GB), so that sums over a profile do not overflow.
pub(crate) const MAX_COST: u32 = 1_000_000_000;

/// Recorded times and sizes of every item (query image) of a run of the pipeline.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Speed of the recording machine, in operations of [`armature_apps::spin`] per second.
    pub speed: f64,
    /// Comments in the profile about its recording, one per line.
    pub remarks: Vec<String>,
    /// Recorded times and sizes of the items, in the order in which they were processed; at least one item.
    pub items: Vec<ItemCost>,
}

/// Time of each pipeline stage for one item (query image), and the sizes of the item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemCost {
    /// Size in bytes of the item as it enters the first stage.
    pub input: u32,
    /// Times and output sizes of the stages, in the order of [`STAGES`].
    pub stages: [StageCost; 6],
}

/// Time of one pipeline stage for one item, and the size of the stage's output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageCost {
    /// Time of the stage on the recording machine in microseconds, rounded up.
    pub micros: u32,
    /// Size in bytes of the item as it leaves the stage.
    pub bytes: u32,
}

/// Error in the text of a profile: line number, counted from 1, and description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileError {
    line: usize,
    what: String,
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for ProfileError {}

impl Profile {
    /// Reads a profile from a file.
    ///
    /// # Errors
    /// The file cannot be read, or its content is no profile. The error names the file and, for wrong content, the line.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = armature_files::regular::read_to_string(path)
            .map_err(|e| format!("cannot read {}: {e}", names::path(path)))?;
        Profile::parse(&text).map_err(|e| format!("{}, {e}", names::path(path)))
    }

    /// Parses the text of a profile.
    ///
    /// # Errors
    /// The error describes the first invalid line, or a missing part of the profile.
    pub fn parse(text: &str) -> Result<Self, ProfileError> {
        let fail = |line: usize, what: String| ProfileError { line, what };
        let mut lines = (1..).zip(text.lines());
        if lines.next().is_none_or(|(_, line)| line != TITLE) {
            return Err(fail(1, format!("a profile begins with `{TITLE}`")));
        }
        let mut speed = None;
        let mut remarks = Vec::new();
        let mut headed = false;
        let mut items = Vec::new();
        let mut last = 1;
        for (number, line) in lines {
            last = number;
            if let Some(text) = line.strip_prefix(SPEED) {
                let value = text.strip_suffix(SPEED_UNIT).and_then(|v| v.parse::<f64>().ok());
                let usable = value.filter(|v| v.is_finite() && *v >= 1.0);
                speed = Some(usable.ok_or_else(|| {
                    fail(number, format!("expected `{SPEED}NUMBER{SPEED_UNIT}` with a number of 1 or more"))
                })?);
            } else if let Some(remark) = line.strip_prefix('#') {
                remarks.push(remark.trim().to_string());
            } else if line.trim().is_empty() {
            } else if !headed {
                if line != heading() {
                    return Err(fail(number, format!("expected the heading `{}`", heading())));
                }
                headed = true;
            } else {
                items.push(item(line, items.len()).map_err(|what| fail(number, what))?);
            }
        }
        let Some(speed) = speed else {
            return Err(fail(last, format!("there is no line `{SPEED}NUMBER{SPEED_UNIT}`")));
        };
        if items.is_empty() {
            return Err(fail(last, "the profile has no items".into()));
        }
        Ok(Profile { speed, remarks, items })
    }

    /// Returns the recorded times and sizes of the item with this number in the stream. A stream longer than the profile repeats the profile.
    ///
    /// # Panics
    /// Panics if the profile has no items.
    pub fn item(&self, number: u64) -> &ItemCost {
        &self.items[(number % self.items.len() as u64) as usize]
    }

    /// Returns the work of an item at stage `stage`, in operations of [`armature_apps::spin`].
    pub fn work(&self, number: u64, stage: usize) -> f64 {
        f64::from(self.item(number).stages[stage].micros) * 1e-6 * self.speed
    }
}

/// Writes the profile as text that [`Profile::parse`] can read.
impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{TITLE}\n{SPEED}{}{SPEED_UNIT}", self.speed)?;
        for remark in &self.remarks {
            writeln!(f, "# {remark}")?;
        }
        writeln!(f, "{}", heading())?;
        for (number, item) in self.items.iter().enumerate() {
            write!(f, "{number},{}", item.input)?;
            for stage in &item.stages {
                write!(f, ",{},{}", stage.micros, stage.bytes)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

fn heading() -> String {
    let mut heading = String::from("item,input_bytes");
    for stage in STAGES {
        let _ = write!(heading, ",{stage}_us,{stage}_bytes");
    }
    heading
}

fn item(line: &str, expected: usize) -> Result<ItemCost, String> {
    let fields: Vec<&str> = line.split(',').collect();
    let wanted = 2 + 2 * STAGES.len();
    if fields.len() != wanted {
        return Err(format!("expected {wanted} fields, found {}", fields.len()));
    }
    let number = |field: &str| {
        let value = field.parse::<u32>().ok().filter(|&v| v <= MAX_COST);
        value.ok_or_else(|| format!("`{}` is not a whole number from 0 to {MAX_COST}", names::shown(field)))
    };
    if number(fields[0])? as usize != expected {
        return Err(format!("expected item {expected}, found `{}`", names::shown(fields[0])));
    }
    let mut item = ItemCost { input: number(fields[1])?, ..ItemCost::default() };
    for (stage, pair) in item.stages.iter_mut().zip(fields[2..].chunks_exact(2)) {
        *stage = StageCost { micros: number(pair[0])?, bytes: number(pair[1])? };
    }
    Ok(item)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text() -> String {
        let item = ItemCost { input: 9, stages: [StageCost { micros: 7, bytes: 11 }; 6] };
        Profile { speed: 2.5e9, remarks: vec!["a test".into()], items: vec![item; 3] }.to_string()
    }

    proptest! {
        #[test]
        fn written_profiles_round_trip(
            speed in 1.0..1e12_f64,
            numbers in prop::collection::vec(prop::array::uniform13(0..=MAX_COST), 1..20),
        ) {
            let item = |n: [u32; 13]| {
                let stage = |s: usize| StageCost { micros: n[1 + 2 * s], bytes: n[2 + 2 * s] };
                ItemCost { input: n[0], stages: [0, 1, 2, 3, 4, 5].map(stage) }
            };
            let items = numbers.into_iter().map(item).collect();
            let profile = Profile { speed, remarks: vec!["3500 images".into()], items };
            prop_assert_eq!(Profile::parse(&profile.to_string()).unwrap(), profile);
        }

        #[test]
        fn profile_parser_never_panics(noise in ".{0,80}", at in 0..400_usize) {
            let mut text = text();
            let at = (0..=at.min(text.len())).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
            text.insert_str(at, &noise);
            let _ = Profile::parse(&text);
        }
    }

    #[test]
    fn items_beyond_the_profile_repeat_from_its_start() {
        let mut profile = Profile::parse(&text()).unwrap();
        profile.items[1].input = 5;
        assert_eq!((profile.item(1).input, profile.item(4).input, profile.item(5).input), (5, 5, 9));
        assert_eq!(profile.work(0, 3), 7e-6 * 2.5e9);
    }

    #[track_caller]
    fn refused(text: &str, line: usize, what: &str) {
        let error = Profile::parse(text).unwrap_err().to_string();
        assert!(error.starts_with(&format!("line {line}: ")) && error.contains(what), "{error}");
    }

    #[test]
    fn errors_name_the_line() {
        let good = text();
        refused("", 1, "# ferret profile 1");
        refused("item,input_bytes\n", 1, "# ferret profile 1");
        refused(&good.replace("2500000000", "0"), 2, "1 or more");
        refused(&good.replace("2500000000", "inf"), 2, "1 or more");
        refused(&good.replace("2500000000", "fast"), 2, "1 or more");
        refused(&good.replace("seg_us", "sag_us"), 4, "heading");
        refused(&good.replace("\n1,", "\n2,"), 6, "expected item 1");
        refused(&good.replace("\n1,9,", "\n1,"), 6, "expected 14 fields, found 13");
        refused(&good.replace("\n2,9,", "\n2,-9,"), 7, "`-9`");
        refused(&good.replace("\n2,9,", "\n2,1.5,"), 7, "`1.5`");
        refused(&good.replace("\n2,9,", "\n2,4000000000,"), 7, "`4000000000`");
        let lines: Vec<&str> = good.lines().collect();
        refused(&lines[..4].join("\n"), 4, "no item");
        refused(&[&lines[..1], &lines[2..]].concat().join("\n"), 6, "# speed");
    }
}
