//! Goes through all phases of a job and says in files where it is: see `armature_tests::phases`.

use armature::BoxError;

fn main() -> Result<(), BoxError> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    armature_tests::phases::main(&words)
}
