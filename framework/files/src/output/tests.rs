//! Tests of the output to regular files, links, FIFOs and devices.

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::PathBuf;

use super::*;
use crate::tests::fifo;

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn output_file_appears_only_on_commit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out");
    fs::write(&path, "old").unwrap();
    let mut output = Output::create(&path).unwrap();
    output.write_all(b"new").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"old");
    output.commit().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(names(dir.path()), ["out"]);
}

#[test]
fn uncommitted_output_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut output = Output::create(&dir.path().join("out")).unwrap();
    output.write_all(b"half").unwrap();
    drop(output);
    assert!(names(dir.path()).is_empty());
    for nothing in [dir.path().join("missing/out"), PathBuf::new(), dir.path().join("..")] {
        assert!(Output::create(&nothing).is_err(), "{}", nothing.display());
    }
    let error = Output::create(dir.path()).unwrap_err();
    assert_eq!(error.to_string(), "is a directory, expected a file name");
}

#[test]
fn write_keeps_permissions_and_accepts_long_names() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x".repeat(250));
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    write(&path, b"new").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
}

#[test]
fn write_replaces_the_target_of_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::create_dir(dir.join("elsewhere")).unwrap();
    fs::write(dir.join("elsewhere/file"), "old").unwrap();
    symlink("elsewhere/file", dir.join("one")).unwrap();
    symlink(dir.join("one"), dir.join("two")).unwrap();
    symlink("elsewhere/new", dir.join("dangling")).unwrap();
    symlink("round", dir.join("round")).unwrap();
    symlink("elsewhere", dir.join("folder")).unwrap();
    for write in [write, publish] {
        for (link, target, text) in
            [("two", "file", "second"), ("one", "file", "first"), ("dangling", "new", "made")]
        {
            write(&dir.join(link), text.as_bytes()).unwrap();
            assert!(dir.join(link).is_symlink(), "{link} stays");
            assert_eq!(fs::read_to_string(dir.join("elsewhere").join(target)).unwrap(), text);
        }
        assert!(write(&dir.join("round"), b"").is_err());
        assert!(write(&dir.join("folder"), b"").is_err());
        write(&dir.join("folder/third"), b"third").unwrap();
        assert_eq!(fs::read(dir.join("elsewhere/third")).unwrap(), b"third");
        assert_eq!(names(&dir.join("elsewhere")), ["file", "new", "third"]);
        fs::remove_file(dir.join("elsewhere/new")).unwrap();
    }
}

#[test]
fn replace_overwrites_the_link_and_not_its_target() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::write(dir.join("precious"), "text").unwrap();
    symlink("precious", dir.join("manifest")).unwrap();
    replace(&dir.join("manifest"), b"ours").unwrap();
    assert_eq!(fs::read(dir.join("precious")).unwrap(), b"text");
    assert!(!dir.join("manifest").is_symlink());
    assert_eq!(fs::read(dir.join("manifest")).unwrap(), b"ours");
    assert_eq!(names(dir), ["manifest", "precious"]);
}

#[test]
fn leftover_temporary_file_is_recognised_by_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let file = TemporaryFile::create(&dir.path().join("manifest"), None).unwrap();
    let name = names(dir.path()).pop().unwrap();
    assert!(is_left_over(&name, "manifest") && !is_left_over(&name, "other"), "{name}");
    drop(file);
    for foreign in ["manifest", ".manifest-.tmp", ".manifest-0123.tmp", "manifest-0123456789abcdef.tmp"] {
        assert!(!is_left_over(foreign, "manifest"), "{foreign}");
    }
}

#[test]
fn devices_are_written_and_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("null");
    symlink("/dev/null", &link).unwrap();
    for write in [write, publish] {
        for path in [Path::new("/dev/null"), &link] {
            write(path, b"gone").unwrap();
            assert!(fs::metadata(path).unwrap().file_type().is_char_device());
        }
        assert_eq!(write(Path::new("/dev/full"), b"x").unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
    assert!(link.is_symlink());
}

#[test]
fn fifo_receives_all_bytes_and_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    fifo(&path);
    // The text is longer than the buffer of a FIFO, so the writer must wait for the reader.
    let text = "twelve bytes".repeat(20_000);
    let reader = std::thread::spawn({
        let path = path.clone();
        move || fs::read_to_string(path).unwrap()
    });
    write(&path, text.as_bytes()).unwrap();
    assert!(reader.join().unwrap() == text);
    assert_eq!(names(dir.path()), ["fifo"]);
    // `publish` refuses a FIFO, because each call would wait for a reader.
    let error = publish(&path, b"state").unwrap_err();
    assert!(error.to_string().contains("is a FIFO, expected a regular file"), "{error}");
}

#[test]
fn opening_a_fifo_without_a_reader_times_out() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    fifo(&path);
    let error = open_fifo(&path, Duration::from_millis(100)).unwrap_err();
    assert_eq!(error.to_string(), "is a FIFO that no process has opened for reading within 0.1 s");
}

#[test]
fn output_to_an_open_descriptor_is_appended() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let mut log = fs::File::create(&path).unwrap();
    log.write_all(b"before ").unwrap();
    write(Path::new(&format!("/dev/fd/{}", log.as_raw_fd())), b"after").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"before after");
    assert_eq!(names(dir.path()), ["log"]);
}
