// Package stream turns the raw output of a command into what a model is shown: text, of bounded size,
// in one pass and in bounded memory.
//
//	out := stream.NewOutput(32<<10, spill)  // spill may be nil
//	out.Write(chunk)                        // as often as it comes, in pieces of any size
//	out.Close()
//	view := out.View(32 << 10)              // view.Head, view.Tail, view.Omitted
//
// Its parts:
//
//   - Cleaner (clean.go) shows the bytes as a terminal would: escape sequences gone, progress bars
//     collapsed to their last state, invalid UTF-8 replaced, NUL removed. It comes before any limit, so
//     that a thousand redraws of one line cost one line.
//
//   - HeadTail (headtail.go) keeps the beginning and the end and counts what is left out between them.
//
//   - Spill (spill.go) keeps the raw bytes in a file, once there are more of them than are shown.
//
//   - Output (output.go) is the three of them for one stream.
//
//   - Ring (ring.go) is for output that is read while it comes: the newest bytes, as they came, under
//     cursors, with readers that wait. It stands beside the others.
//
// None of them starts a goroutine. Only Spill and Ring may be used concurrently: the streams of one
// command share a spill.
package stream
