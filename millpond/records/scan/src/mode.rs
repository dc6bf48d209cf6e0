//! What a column takes, and what it holds of a member.

use crate::batch::Value;
use crate::json::{parsed, Number, Reader, Text};

/// No integer beyond this size can be told from its neighbour once it is a double.
const EXACT_IN_DOUBLE: u64 = (1 << 53) - 1;

/// What a column takes. Null is as good as no member, but where it says otherwise, and every column takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Booleans; others are odd members.
    Bool,
    /// Integers inside int64; others are odd members.
    Int64,
    /// Fractions and integers that a double holds exactly; others are odd members.
    Float64,
    /// The characters of strings; others are odd members.
    String,
    /// The characters of strings; a record with anything else is declined.
    StringOnly,
    /// Any value: the characters of a string, else its JSON text without white space between tokens.
    Text,
    /// The JSON text of scalars, `null` where none came; a record with an object, an array or a number too
    /// large for a double is declined.
    Scalar,
    /// Null alone; a record with anything else is declined.
    Empty,
    /// Any value, and null is one; all that is kept is that it came.
    Ignored,
}

impl Mode {
    /// The mode by its number, in the order above.
    pub const fn of(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Bool,
            1 => Self::Int64,
            2 => Self::Float64,
            3 => Self::String,
            4 => Self::StringOnly,
            5 => Self::Text,
            6 => Self::Scalar,
            7 => Self::Empty,
            8 => Self::Ignored,
            _ => return None,
        })
    }

    /// Whether a member that the column does not take leaves the record where it is.
    pub const fn may_be_odd(self) -> bool {
        matches!(self, Self::Bool | Self::Int64 | Self::Float64 | Self::String)
    }

    /// Pass over a value whose first byte is `first`: what the column holds of it, from where to where.
    ///
    /// None inside where it is of a type that the column does not take.
    #[inline]
    pub fn read(self, reader: &mut Reader, first: u8) -> Option<(Option<Value>, usize, usize)> {
        let (begin, spaces) = (reader.at, reader.spaces);
        let value = match first {
            b'"' => {
                let text = reader.string()?;
                if self != Self::Scalar {
                    return Some((self.string(text), text.start, text.end));
                }
                Some(Value::Text)
            }
            b'n' => {
                reader.word(b"null")?;
                self.text()
            }
            b't' | b'f' => {
                let is_true = first == b't';
                reader.word(if is_true { b"true" } else { b"false" })?;
                if self == Self::Bool {
                    Some(Value::Bool(is_true))
                } else {
                    self.text()
                }
            }
            b'{' | b'[' => {
                reader.nested()?;
                match (self, reader.spaces - spaces) {
                    (Self::Scalar, _) => None,
                    (Self::Text, spaces @ 1..) => {
                        Some(Value::Spaced(u32::try_from(reader.at - begin - spaces).ok()?))
                    }
                    _ => self.text(),
                }
            }
            _ => {
                let number = reader.number()?;
                self.number(number, &reader.bytes[begin..reader.at])
            }
        };
        Some((value, begin, reader.at))
    }

    fn string(self, text: Text) -> Option<Value> {
        match self {
            Self::String | Self::StringOnly | Self::Text if text.is_escaped() => {
                Some(Value::Escaped(u32::try_from(text.length).ok()?))
            }
            Self::String | Self::StringOnly | Self::Text => Some(Value::Text),
            Self::Ignored => Some(Value::Ignored),
            _ => None,
        }
    }

    /// What is held of a value that is no string where nothing but its text is of use.
    const fn text(self) -> Option<Value> {
        match self {
            Self::Text | Self::Scalar => Some(Value::Text),
            Self::Ignored => Some(Value::Ignored),
            _ => None,
        }
    }

    #[inline]
    fn number(self, number: Number, text: &[u8]) -> Option<Value> {
        match (self, number) {
            (Self::Int64, Number::Integer(integer)) => Some(Value::Int64(integer)),
            (Self::Float64, Number::Integer(integer)) if integer.unsigned_abs() <= EXACT_IN_DOUBLE =>
            {
                #[allow(clippy::cast_precision_loss, reason = "none, as just seen")]
                Some(Value::Float64(integer as f64))
            }
            (Self::Float64, Number::Fraction) => finite(text).map(Value::Float64),
            (Self::Scalar, Number::Fraction | Number::BeyondInt64) => finite(text).map(|_| Value::Text),
            _ => self.text(),
        }
    }
}

fn finite(text: &[u8]) -> Option<f64> {
    parsed(text).filter(|number: &f64| number.is_finite())
}
