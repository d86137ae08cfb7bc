package jsonwire

import (
	"encoding/base64"
	"slices"

	simd "github.com/segmentio/asm/base64"
)

// AppendBase64 writes data in the standard encoding, with padding, behind dst.
func AppendBase64(dst, data []byte) []byte {
	start, n := len(dst), simd.StdEncoding.EncodedLen(len(data))
	dst = slices.Grow(dst, n)[:start+n]
	simd.StdEncoding.Encode(dst[start:], data)
	return dst
}

// decodeBase64 is base64.StdEncoding's decoding, into the memory of b when there is enough.
func decodeBase64(b, text []byte) ([]byte, error) {
	n := simd.StdEncoding.DecodedLen(len(text))
	if b == nil || cap(b) < n {
		b = make([]byte, n)
	}
	b = b[:n]
	n, err := simd.StdEncoding.Decode(b, text)
	if err != nil { // which counts from where it gave up on many bytes at a time
		n, err = base64.StdEncoding.Decode(b, text)
	}
	return b[:n], err
}
