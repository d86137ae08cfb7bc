package gateway

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
)

// readLine reads one line of at most limit bytes, without its end. Of a longer one it
// reads all and returns nothing. With an error the line may have text too, the last.
func readLine(br *bufio.Reader, limit int) (text []byte, tooLong bool, err error) {
	for {
		part, err := br.ReadSlice('\n')
		if len(text)+len(part) > limit {
			tooLong, text = true, nil
		}
		if !tooLong {
			text = append(text, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			if err != nil && !errors.Is(err, io.EOF) {
				text = nil
			}
			return text, tooLong, err
		}
	}
}

func validJSON(raw []byte) bool { return json.Valid(raw) }

func quote(s string) []byte {
	raw, _ := json.Marshal(s) // a string always can
	return raw
}
