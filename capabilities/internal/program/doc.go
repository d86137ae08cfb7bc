// Package program runs one program to its end, for a tool whose result is what the program printed.
//
//	run, err := program.Start(ctx, call, group, spawn.Command{Argv: []string{"make"}, Dir: dir, Env: env}, program.Limits{})
//	if err != nil { ... } // it did not start
//	report := run.Report(nil)
//	return protocol.ToolOutput{Content: protocol.Text(report.Words()).Content, Structured: report}, run.Err()
//
// Its parts:
//
//   - Start (run.go) waits for the program, its time limit or the end of the call, whatever comes first.
//   - Report (report.go) is the result: both streams, bounded, with the whole kept in a file when it is long. It is made
//     of Streams (streams.go), what the outputs of a call share, and Words (words.go), its text, which tools that run
//     their program otherwise use by themselves.
//   - Capture (capture.go) is for a program that is asked something on the way, whose answer is small.
//
// Nothing is left running when one of them returns, but for what the program itself put into the background.
package program
