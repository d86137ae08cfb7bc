package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"sync"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
)

// results are kept in a file, one JSON object per line. So they outlive this program,
// and each is kept once however often it comes.
type results struct {
	mu   sync.Mutex
	file *os.File
	size int64              // of all whole lines
	kept map[[2]string]bool // by session and call
}

func openResults(path string) brain.Results {
	if path == "" {
		return brain.NewMemoryResults(0)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	check(err)
	r := &results{file: f, kept: map[[2]string]bool{}}
	for lines := bufio.NewReader(f); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil { // the end; what a crash left unfinished is cut off, its result was not acknowledged
			check(f.Truncate(r.size))
			return r
		}
		var p protocol.ToolResultParams
		check(json.Unmarshal(line, &p))
		r.kept[[2]string{p.SessionID, p.ToolCallID}] = true
		r.size += int64(len(line))
	}
}

// Put returns nil when the result is safe: after that the executor forgets it.
func (r *results) Put(_ context.Context, p protocol.ToolResultParams) (fresh bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := [2]string{p.SessionID, p.ToolCallID}
	if r.kept[key] {
		return false, nil
	}
	line, err := json.Marshal(p)
	if err == nil {
		_, err = r.file.Write(append(line, '\n'))
	}
	if err == nil {
		err = r.file.Sync()
	}
	if err != nil {
		_ = r.file.Truncate(r.size) // half a line; the executor sends the result again
		return false, err
	}
	r.kept[key] = true
	r.size += int64(len(line)) + 1
	return true, nil
}
