package outbox

// waitingScope is that of the notes on calls that were accepted and wait to be let run: no session's, since
// those have a "#" in them.
const waitingScope = "waiting"

// Waiting notes that a call, which was accepted, has not started: after a kill its result says so.
func (b *Box) Waiting(sessionID, toolCallID string) {
	b.Note(waitingScope, waitingName(sessionID, toolCallID), []byte{1})
}

// Started takes that back, on the disk, before it returns: only then may the call run.
func (b *Box) Started(sessionID, toolCallID string) {
	b.forgetNote(waitingScope, waitingName(sessionID, toolCallID), true)
}

// ForgetWaiting takes it back for a call that was not run, and has a result that says so.
func (b *Box) ForgetWaiting(sessionID, toolCallID string) {
	b.ForgetNote(waitingScope, waitingName(sessionID, toolCallID))
}

// waited reports whether a call of the last process had not started. b.mu is not needed before Open returns.
func (b *Box) waited(e *entry) bool {
	return b.notes[waitingScope][waitingName(e.session, e.call)] != nil
}

func waitingName(sessionID, toolCallID string) string { return sessionID + "\x00" + toolCallID }
