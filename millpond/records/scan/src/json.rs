//! The grammar of RFC 8259, byte by byte. `None` is said of whatever is not exactly that.

/// Levels of objects and arrays inside one member. Deeper ones are rare, and read with care.
const DEEPEST: u32 = 128;

const ONES: u64 = u64::from_le_bytes([1; 8]);
const HIGH_BITS: u64 = ONES << 7;

/// A string as it is written: its bytes between the quotes, and how many they are without escapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    pub start: usize,
    pub end: usize,
    pub length: usize,
}

impl Text {
    /// Whether the bytes between the quotes are not what the string says.
    pub const fn is_escaped(&self) -> bool {
        self.length != self.end - self.start
    }
}

/// Reads one record from front to back.
pub struct Reader<'a> {
    pub bytes: &'a [u8],
    pub at: usize,
    /// White space passed between tokens so far.
    pub spaces: usize,
}

impl<'a> Reader<'a> {
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, spaces: 0 }
    }

    #[inline]
    pub fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// The next byte that is no white space, which stays where it is.
    #[inline]
    pub fn token(&mut self) -> Option<u8> {
        loop {
            match self.peek()? {
                b' ' | b'\t' | b'\n' | b'\r' => {
                    self.at += 1;
                    self.spaces += 1;
                }
                byte => return Some(byte),
            }
        }
    }

    /// Pass over this byte and the white space before it; nothing else may stand there.
    #[inline]
    pub fn expect(&mut self, byte: u8) -> Option<()> {
        if self.token()? != byte {
            return None;
        }
        self.at += 1;
        Some(())
    }

    /// Pass over `true`, `false` or `null`.
    #[inline]
    pub fn word(&mut self, word: &[u8]) -> Option<()> {
        if !self.bytes[self.at..].starts_with(word) {
            return None;
        }
        self.at += word.len();
        Some(())
    }

    /// Pass over a string, from its first quote.
    #[inline]
    pub fn string(&mut self) -> Option<Text> {
        self.at += 1;
        let start = self.at;
        let mut saved = 0;
        loop {
            self.pass_plain();
            match self.peek()? {
                b'"' => break,
                b'\\' => saved += self.escape()?,
                ..=0x1f => return None,
                _ => self.at += 1,
            }
        }
        let end = self.at;
        self.at += 1;
        Some(Text { start, end, length: end - start - saved })
    }

    /// Pass over bytes that only stand for themselves, while eight are left.
    #[inline]
    fn pass_plain(&mut self) {
        while let Some(eight) = self.bytes[self.at..].first_chunk::<8>() {
            let special = special_bytes(u64::from_le_bytes(*eight));
            if special != 0 {
                self.at += (special.trailing_zeros() / 8) as usize;
                return;
            }
            self.at += 8;
        }
    }

    /// Pass over an escape; by how much it is longer than the character it stands for.
    fn escape(&mut self) -> Option<usize> {
        let (character, written) = unescaped(&self.bytes[self.at..])?;
        self.at += written;
        Some(written - character.len_utf8())
    }

    /// Pass over a number; the integer, where it is one inside int64.
    #[inline]
    pub fn number(&mut self) -> Option<Number> {
        let start = self.at;
        let is_negative = self.peek()? == b'-';
        if is_negative {
            self.at += 1;
        }
        let digits = self.at;
        let mut magnitude = 0_u64;
        while let Some(byte @ b'0'..=b'9') = self.peek() {
            magnitude = magnitude.wrapping_mul(10).wrapping_add(u64::from(byte - b'0'));
            self.at += 1;
        }
        let count = self.at - digits;
        if count == 0 || (count > 1 && self.bytes[digits] == b'0') {
            return None;
        }
        if self.fraction()? {
            return Some(Number::Fraction);
        }
        Some(match count {
            ..=18 => {
                #[allow(clippy::cast_possible_wrap, reason = "below 10^18")]
                let magnitude = magnitude as i64;
                Number::Integer(if is_negative { -magnitude } else { magnitude })
            }
            _ => parsed(&self.bytes[start..self.at]).map_or(Number::BeyondInt64, Number::Integer),
        })
    }

    /// Pass over what may follow the digits of an integer; whether anything did.
    fn fraction(&mut self) -> Option<bool> {
        let end = self.at;
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Some(self.at > end)
    }

    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    /// Pass over an object or an array, from its bracket.
    pub fn nested(&mut self) -> Option<()> {
        self.value(DEEPEST)
    }

    fn value(&mut self, levels: u32) -> Option<()> {
        match self.token()? {
            b'"' => self.string().map(drop),
            b'{' => self.list(b'}', levels, |reader, levels| {
                if reader.token()? != b'"' {
                    return None;
                }
                let _key = reader.string()?;
                reader.expect(b':')?;
                reader.value(levels)
            }),
            b'[' => self.list(b']', levels, Self::value),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => self.number().map(drop),
        }
    }

    fn list(&mut self, end: u8, levels: u32, one: fn(&mut Self, u32) -> Option<()>) -> Option<()> {
        let levels = levels.checked_sub(1)?;
        self.at += 1;
        if self.token()? == end {
            self.at += 1;
            return Some(());
        }
        loop {
            one(self, levels)?;
            let next = self.token()?;
            self.at += 1;
            if next == end {
                return Some(());
            }
            if next != b',' {
                return None;
            }
        }
    }
}

/// What kind of number is written somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    Integer(i64),
    BeyondInt64,
    /// With a fraction or an exponent, whatever its value is.
    Fraction,
}

/// A number as its text has it; None where the type has no such number.
pub fn parsed<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The lowest high bit that is set is that of the first quote, backslash or control character.
///
/// Bits above it say nothing: a borrow may have come from below.
#[inline]
const fn special_bytes(word: u64) -> u64 {
    let quote = word ^ (ONES * b'"' as u64);
    let backslash = word ^ (ONES * b'\\' as u64);
    let is_quote = quote.wrapping_sub(ONES) & !quote;
    let is_backslash = backslash.wrapping_sub(ONES) & !backslash;
    let is_control = word.wrapping_sub(ONES * 0x20) & !word;
    (is_quote | is_backslash | is_control) & HIGH_BITS
}

/// The character that an escape at the begin of `text` stands for, and the bytes it is written in.
pub fn unescaped(text: &[u8]) -> Option<(char, usize)> {
    let plain = |character| Some((character, 2));
    match text.get(1)? {
        b'"' => plain('"'),
        b'\\' => plain('\\'),
        b'/' => plain('/'),
        b'b' => plain('\u{8}'),
        b'f' => plain('\u{c}'),
        b'n' => plain('\n'),
        b'r' => plain('\r'),
        b't' => plain('\t'),
        b'u' => {
            let first = unit(text.get(2..6)?)?;
            if !(0xd800..0xdc00).contains(&first) {
                return char::from_u32(first).map(|character| (character, 6));
            }
            let second = unit(text.get(6..12)?.strip_prefix(b"\\u")?)?;
            let low = second.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
            char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + low).map(|character| (character, 12))
        }
        _ => None,
    }
}

fn unit(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(text: &str) -> Option<Text> {
        let mut reader = Reader::new(text.as_bytes());
        reader.string().filter(|_| reader.at == text.len())
    }

    fn number(text: &str) -> Option<Number> {
        let mut reader = Reader::new(text.as_bytes());
        reader.number().filter(|_| reader.at == text.len())
    }

    fn is_value(text: &str) -> bool {
        let mut reader = Reader::new(text.as_bytes());
        reader.nested().is_some() && reader.token().is_none()
    }

    #[test]
    fn the_first_special_byte_is_found_wherever_it_stands() {
        for special in (0..0x20).chain([b'"', b'\\']) {
            for place in 0..8 {
                for others in [0x20, 0x21, 0x23, 0x5b, 0x5d, 0x7f, 0x80, 0xa2, 0xdc, 0xff] {
                    let mut eight = [others; 8];
                    assert_eq!(0, special_bytes(u64::from_le_bytes(eight)));
                    eight[place..].fill(special);
                    let found = special_bytes(u64::from_le_bytes(eight)).trailing_zeros() / 8;
                    assert_eq!(place, found as usize, "{special:#x} among {others:#x}");
                }
            }
        }
    }

    #[test]
    fn a_string_ends_at_its_quote_and_is_as_long_as_its_characters() {
        for (text, length) in [
            (r#""""#, 0),
            (r#""0123456789""#, 10),
            (r#""0123456\"89""#, 10),
            (r#""\u0041\u00e9\u20ac\ud83d\ude00""#, 1 + 2 + 3 + 4),
            (r#""\\\/\b\f\n\r\t""#, 7),
        ] {
            assert_eq!(Some(length), string(text).map(|text| text.length), "{text}");
        }
        for text in [
            "\"a",
            "\"a\n\"",
            r#""\x""#,
            r#""\u12g4""#,
            r#""\ud800""#,
            r#""\ud800\u0041""#,
            r#""\ud800\ue000""#,
            r#""\udc00""#,
        ] {
            assert_eq!(None, string(text), "{text}");
        }
    }

    #[test]
    fn numbers_are_as_the_grammar_has_them() {
        for (text, expected) in [
            ("0", Number::Integer(0)),
            ("-0", Number::Integer(0)),
            ("999999999999999999", Number::Integer(999_999_999_999_999_999)),
            ("9223372036854775807", Number::Integer(i64::MAX)),
            ("-9223372036854775808", Number::Integer(i64::MIN)),
            ("9223372036854775808", Number::BeyondInt64),
            ("100000000000000000000000000000000", Number::BeyondInt64),
            ("1.0", Number::Fraction),
            ("1e5", Number::Fraction),
            ("-1.25E-7", Number::Fraction),
        ] {
            assert_eq!(Some(expected), number(text), "{text}");
        }
        for text in ["", "-", "01", "+1", ".5", "1.", "1e", "1e+", "0x1", "1_0", "NaN", "-Infinity", "1.0.0"]
        {
            assert_eq!(None, number(text), "{text}");
        }
    }

    #[test]
    fn nested_values_are_closed_as_they_were_opened() {
        for text in ["{}", "[]", "[[]]", r#"{"a":[1,{"b":null}],"c":"]"}"#, "[ 1 , true , false ]"] {
            assert!(is_value(text), "{text}");
        }
        for text in
            ["{", "[}", "[1,]", "[,1]", "[1 2]", r#"{"a"}"#, r#"{"a":}"#, r"{1:2}", "[tru]", r#"{"a":1,}"#]
        {
            assert!(!is_value(text), "{text}");
        }
        let nested = |levels| "[".repeat(levels) + &"]".repeat(levels);
        assert!(is_value(&nested(DEEPEST as usize)));
        assert!(!is_value(&nested(DEEPEST as usize + 1)));
    }
}
