//! Options for experiments and tests (feature `experiments`), which are not part of the public interface.

use super::builder::Pipeline;
use super::choice::MappingChoice;

impl<T> Pipeline<'_, T> {
    /// Requests another mapping as soon as `items` items have reached the sink. The stream continues during the change. The option may be given
    /// several times.
    pub fn remap_after(mut self, items: u64, mapping: MappingChoice) -> Self {
        self.def.remaps.push((items, mapping));
        self
    }
}
