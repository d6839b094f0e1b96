//! Tests that the encoded bytes of the header of all messages, and of the message that ends a job, do not change from version to version.

use super::message::FailureMessage;
use super::message::{Control, frame_header};
use crate::golden::{Messages, RUN};

#[test]
fn failure_message_encoding_is_unchanged() {
    let mut messages = Messages::default();
    messages.bytes("the header of a frame", &frame_header(RUN, Control::Register));
    let note = FailureMessage { message: "rank 1: no".into(), restart: true };
    messages.value("a rank has failed", Control::Failure, &note);
    messages.bytes("a message to be answered at once", &frame_header(RUN, Control::Probe));
    messages.bytes("the answer to it", &frame_header(RUN, Control::Echo));
    messages.check("comm");
}
