package statefile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

// format is the version of what is in a copy. The frame stays the same in all
// versions: a JSON object whose last member, written just so, is the checksum of
// everything before it.
const format = 1

const (
	sumMember = `,"sha256":"`
	sumEnd    = `"}`
	tailBytes = len(sumMember) + 2*sha256.Size + len(sumEnd)
)

// ErrNewer is a state that a newer version of this program has written.
var ErrNewer = errors.New("written by a newer version of this program; run that version, or use another state directory")

type head struct {
	Format     int    `json:"format"`
	Generation uint64 `json:"generation"`
}

// copyOf is one copy as it was read.
type copyOf struct {
	generation uint64
	state      State
	whole      []byte // what was written; nil when that is not known
}

func encode(generation uint64, s State) ([]byte, error) {
	content, err := json.Marshal(struct {
		head
		State State `json:"state"`
	}{head{format, generation}, s})
	if err != nil {
		return nil, fmt.Errorf("encode state: %w", err)
	}
	return seal(content[:len(content)-len("}")]), nil
}

// seal ends an object that lacks its last brace with the checksum.
func seal(content []byte) []byte {
	sum := sha256.Sum256(content)
	content = append(content, sumMember...)
	content = hex.AppendEncode(content, sum[:])
	return append(content, sumEnd+"\n"...)
}

// decode reads one copy. Beside an error there may be a state: then what was written
// is all there, with something else behind it.
func decode(raw []byte) (copyOf, error) {
	body, rest, err := frame(raw)
	if err != nil {
		return copyOf{}, err
	}
	var h head
	if err := json.Unmarshal(body, &h); err != nil {
		return copyOf{}, err
	}
	if h.Format > format {
		return copyOf{}, fmt.Errorf("format %d: %w", h.Format, ErrNewer)
	}
	var content struct {
		State State `json:"state"`
	}
	if err := json.Unmarshal(body, &content); err != nil {
		return copyOf{}, err
	}
	c := copyOf{generation: h.Generation, state: content.State, whole: append(bytes.Clone(body), '\n')}
	if len(bytes.TrimSpace(rest)) > 0 {
		return c, fmt.Errorf("%d bytes behind its end", len(rest))
	}
	return c, nil
}

// frame finds the object in a copy, whose checksum is right, and what is behind it.
func frame(raw []byte) (body, rest []byte, err error) {
	if len(raw) == 0 {
		return nil, nil, errors.New("empty")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	var object json.RawMessage
	if err := d.Decode(&object); err != nil {
		return nil, nil, fmt.Errorf("cut or overwritten: %w", err)
	}
	end := int(d.InputOffset())
	body, rest = raw[end-len(object):end], raw[end:]
	if len(body) < tailBytes {
		return nil, nil, errors.New("no checksum")
	}
	before, tail := body[:len(body)-tailBytes], body[len(body)-tailBytes:]
	sum := sha256.Sum256(before)
	if string(tail) != sumMember+hex.EncodeToString(sum[:])+sumEnd {
		return nil, nil, errors.New("the checksum is wrong")
	}
	return body, rest, nil
}
