// Package cli is what the command lines share: exit codes and errors of one line,
// text that is safe on a terminal, logs, token files, the state directory.
package cli

import (
	"errors"
	"fmt"
	"io"
)

// Exit codes.
const (
	ExitDone       = 0
	ExitFailed     = 1
	ExitUsage      = 2 // usage or configuration
	ExitCredential = 3 // credential rejected
	ExitRefused    = 4 // registration refused or unsupported protocol
	ExitReplaced   = 5 // by another executor with the same identity
)

// Exit is an error with the exit code it leads to. With Quiet everything has been
// said already.
type Exit struct {
	Code  int
	Err   error
	Quiet bool
}

func (e *Exit) Error() string { return e.Err.Error() }
func (e *Exit) Unwrap() error { return e.Err }

// WithCode gives an error its exit code.
func WithCode(code int, err error) error {
	if err == nil {
		return nil
	}
	return &Exit{Code: code, Err: err}
}

// Usagef is an error of the command line or the configuration.
func Usagef(format string, args ...any) error {
	return &Exit{Code: ExitUsage, Err: fmt.Errorf(format, args...)}
}

// Code is the exit code of an error.
func Code(err error) int {
	var e *Exit
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &e):
		return e.Code
	}
	return ExitFailed
}

// Report writes an error in one line, or as an object, and returns its exit code.
func Report(w io.Writer, program string, err error, asJSON bool) int {
	code := Code(err)
	var e *Exit
	if err == nil || errors.As(err, &e) && e.Quiet {
		return code
	}
	text := err.Error()
	if asJSON {
		_ = WriteJSON(w, struct {
			Error    string `json:"error"`
			ExitCode int    `json:"exit_code"`
		}{text, code})
		return code
	}
	_, _ = fmt.Fprintf(w, "%s: %s\n", program, Line(text))
	return code
}
