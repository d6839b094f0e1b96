//! Numbers that identify the codec of an encoded batch.

/// Codecs with their numbers in messages. A number is never reused for another codec.
#[derive(Clone, Copy, Debug)]
pub(super) enum Id {
    U8 = 0x01,
    I8 = 0x02,
    U16 = 0x03,
    I16 = 0x04,
    U32 = 0x05,
    I32 = 0x06,
    U64 = 0x07,
    I64 = 0x08,
    U128 = 0x09,
    I128 = 0x0a,
    Usize = 0x0b,
    Isize = 0x0c,
    F32 = 0x0d,
    F64 = 0x0e,
    Bool = 0x0f,
    Char = 0x10,
    /// Number added to a scalar type's codec number to form the codec number of vectors of this scalar type.
    Vec = 0x20,
    String = 0x40,
    Bytes = 0x41,
    BytesMut = 0x42,
    Plain = 0x50,
    /// Codec for all types without a faster codec; serde encodes their values.
    Structured = 0x60,
}
