// Package redact finds secrets that are known in bytes that go out, and takes them out.
//
//	r := redact.New(token)
//	r.String("401: token abcd-efgh-ijkl is unknown") // "401: token [redacted] is unknown"
//	w := r.NewWriter(os.Stdout)                      // finds them across writes too
//	defer w.Close()
//
// Its parts:
//
//   - Redactor (redactor.go) knows the secrets. Add, Renew and Hold tell it more while it is used.
//   - A secret is found as it is, and as base64 at each of its three alignments, escaped for a URL, quoted for
//     JSON, and as hexadecimal digits (forms.go); each of them also when it is broken over lines (lines.go).
//   - String and Bytes put "[redacted]" in its place. Mask, Stream (stream.go) and Writer put as many asterisks
//     as it has bytes, so that lengths, lines and cursors stay what they were.
//   - Core (core.go) is for a zap logger: messages and fields.
//   - Sensitive (sensitive.go) says which variables hold secrets by their names.
//
// It is for accidents: a program that means to give a secret away can write it in a way that nobody
// recognizes. What helps against that is that the program never gets it.
package redact
