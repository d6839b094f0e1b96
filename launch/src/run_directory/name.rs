//! Checks and chooses the names of runs.

use std::path::Path;

use super::LAST;

/// Maximum length of a run's name. With the number of the run and a suffix, a name of this length still fits into a file
/// name and into a job name of PBS.
const LONGEST: usize = 100;

/// Few characters are allowed, because names of runs become parts of file names, job scripts and options of batch systems.
pub(crate) fn parse(text: &str) -> Result<String, String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    let wrong = if text.is_empty() {
        "it is empty"
    } else if text.len() > LONGEST {
        "it has more than 100 characters"
    } else if !text.chars().all(is_allowed) {
        "it has other characters than letters of ASCII, digits and . _ + -"
    } else if text.starts_with(['-', '.', '+']) {
        "it begins with one of . + -"
    } else if text == LAST {
        "it means the newest run"
    } else if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_') {
        "it could be the number of a batch job"
    } else {
        return Ok(text.to_string());
    };
    Err(format!("{} cannot be the name of a run: {wrong}", armature_text::quoted(text)))
}

pub(crate) fn of_program(program: &Path) -> String {
    let stem = program.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let allowed = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let name: String = stem.chars().take(40).map(allowed).collect();
    parse(&name).unwrap_or_else(|_| "run".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_names_are_plain_words() {
        for name in ["a", "lyapunov-7", "a.b_c+d", "7a"] {
            assert_eq!(parse(name).as_deref(), Ok(name));
        }
        for name in
            ["", "last", "48211", "48211_3", "-a", ".a", "a/b", "a@2", "a b", "$(id)", "é", "a\nb", "a'"]
        {
            assert!(parse(name).unwrap_err().contains("cannot be the name of a run: it "), "{name}");
        }
        assert!(parse(&"a".repeat(101)).is_err());
    }

    #[test]
    fn run_names_are_derived_from_programs() {
        let of = |path: &str| of_program(Path::new(path));
        assert_eq!([of("/bin/sor"), of("./my prog.py"), of("77"), of("/")], ["sor", "my_prog", "run", "run"]);
    }
}
