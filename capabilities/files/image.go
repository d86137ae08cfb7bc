package files

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	_ "image/gif" // the formats that image.DecodeConfig knows
	_ "image/jpeg"
	_ "image/png"

	"github.com/agent-executor/executor/protocol"
)

// image shows a picture, or says why not.
func (f *Files) image(out readOutput, data []byte) protocol.ToolOutput {
	what := fmt.Sprintf("%s is an image: %s, %s", out.Path, out.MIMEType, plural(out.SizeBytes, "byte"))
	if int64(len(data)) > f.opts.MaxImageBytes {
		out.Binary = true
		return output(out, fmt.Sprintf("[%s; not shown, more than %s bytes]", what, count(f.opts.MaxImageBytes)))
	}
	size, ok := inspectImage(out.MIMEType, data)
	if size != "" {
		what += ", " + size
	}
	if !ok {
		out.Binary = true
		return output(out, fmt.Sprintf("[%s; not shown, it is damaged]", what))
	}
	o := output(out, "["+what+"]")
	o.Content = append(o.Content, protocol.Content{Type: protocol.ContentImage, Data: data, MIMEType: out.MIMEType})
	return o
}

// inspectImage looks whether data is a whole image and returns its size for
// people. A damaged one is not sent: a model's provider refuses the whole
// conversation for it.
func inspectImage(mime string, data []byte) (size string, ok bool) {
	if mime == "image/webp" {
		// RIFF, the size of what follows, WEBP.
		return "", len(data) >= 30 && uint64(binary.LittleEndian.Uint32(data[4:]))+8 <= uint64(len(data))
	}
	c, _, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return "", false
	}
	end := map[string]string{"image/png": "IEND", "image/jpeg": "\xff\xd9", "image/gif": ";"}[mime]
	return fmt.Sprintf("%d×%d pixels", c.Width, c.Height), bytes.Contains(data, []byte(end))
}
