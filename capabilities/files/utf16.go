package files

import (
	"bytes"

	"golang.org/x/text/encoding/unicode"
)

// utf16Order is the byte order of an encoding that is UTF-16 with its mark.
func utf16Order(encoding string) (order unicode.Endianness, ok bool) {
	switch encoding {
	case utf16LE:
		return unicode.LittleEndian, true
	case utf16BE:
		return unicode.BigEndian, true
	}
	return unicode.LittleEndian, false
}

// fromUTF16 makes UTF-8 without a mark of a content that is UTF-16. ok is false when it
// is not, or when what toUTF16 made of the text would not be the same bytes again:
// halves of characters, for one.
func fromUTF16(content []byte) (text []byte, encoding string, ok bool) {
	encoding = sniff(content[:min(len(content), headSize)]).encoding
	order, ok := utf16Order(encoding)
	if !ok {
		return nil, "", false
	}
	text, err := unicode.UTF16(order, unicode.UseBOM).NewDecoder().Bytes(content)
	if err != nil || !bytes.Equal(toUTF16(text, encoding), content) {
		return nil, "", false
	}
	return text, encoding, true
}

// toUTF16 makes UTF-16 with its mark of UTF-8.
func toUTF16(text []byte, encoding string) []byte {
	order, _ := utf16Order(encoding)
	content, err := unicode.UTF16(order, unicode.UseBOM).NewEncoder().Bytes(text)
	if err != nil {
		return nil
	}
	return content
}
