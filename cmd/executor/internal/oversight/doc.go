// Package oversight is what stands between a brain and this machine: what a call is decided by, and what is
// neither logged nor returned.
//
//	o, err := oversight.Open(settings, hide, log)
//	defer o.Close()
//	options.Decide = o.Decide
//	o.Answer(server)
//	go o.Prompt(ctx)
//
// oversight.go puts together the policy, the approvals of the local user and the audit log, which are packages below
// executor, and answers on the control socket; prompt.go asks on the terminal, print.go prints for it and for
// executor approvals. redact.go is where secrets are known from, and how they are left out of results and output.
package oversight
