//! Results of a workflow on every rank, for `Workflow::collect_on_all`.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::builder::Workflow;
use super::results::Results;
use super::value::Value;
use crate::error::{Error, ErrorKind, Result};
use crate::session::Session;
use crate::wire::Codec;

impl Workflow<'_> {
    pub(super) fn share(&self, session: &mut Session, collected: Option<Results>) -> Result<Results> {
        let name = self.description.name();
        let packed = collected.map(|results| {
            let pack = |(name, value): (String, Value)| {
                let (lengths, pieces) = value.pieces();
                (name, pieces.fold(lengths, |file, piece| [&file[..], piece].concat()))
            };
            let (names, values): (Vec<String>, Vec<Vec<u8>>) = results.values.into_iter().map(pack).unzip();
            (values, names)
        });
        let place = |error: Error| error.in_workflow(name);
        let what = format!("the workflow {name:?}");
        let (values, names): (Vec<Vec<u8>>, Vec<String>) =
            session.share_with(&what, &Codec::of_type(), packed, place)?;
        let unpack = |(name, bytes): (String, Vec<u8>)| Some((name, Value::unpack(Bytes::from(bytes))?));
        let values: Option<BTreeMap<String, Value>> = names.into_iter().zip(values).map(unpack).collect();
        let values = values.ok_or_else(|| Error::new(ErrorKind::Wire, "rank 0 sent an invalid value"))?;
        Ok(Results { workflow: name.to_string(), values })
    }
}
