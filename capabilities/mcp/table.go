package mcp

import (
	"context"
	"fmt"
	"sync"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

// States of a server in session.ready.
const (
	stateReady  = "ready"
	stateFailed = "failed"
)

// table is the servers of one session. close ends them.
type table struct {
	session *capabilities.Session
	options *Options
	log     *zap.Logger
	ctx     context.Context // of all servers; ends with the session's
	cancel  context.CancelFunc
	servers []*server
	work    sync.WaitGroup // one goroutine for each server
}

func newTable(s *capabilities.Session, o *Options) *table {
	t := &table{session: s, options: o, log: s.Logger().Named("mcp").With(zap.String("session", s.ID()))}
	t.ctx, t.cancel = context.WithCancel(s.Context())
	return t
}

// start starts all servers that there are to be, and returns when it is known of each how it came up.
func (t *table) start(ctx context.Context) {
	t.collect()
	var starting sync.WaitGroup
	for _, s := range t.servers {
		starting.Go(func() { s.up(ctx) })
	}
	starting.Wait()
}

// collect makes the servers out of the assignment and the options. What is wrong with one is its state.
func (t *table) collect() {
	assigned := t.session.Assign().MCPServers
	count := map[string]int{}
	for _, s := range assigned {
		if s.ConnectionOrigin != protocol.OriginService {
			count[s.ServerKey]++
		}
	}
	for i, s := range assigned {
		if s.ConnectionOrigin == protocol.OriginService { // the brain connects it by itself
			continue
		}
		at := fmt.Sprintf("mcp_servers.%d.", i)
		field, problem := check(s)
		switch {
		case field == "" && s.ConnectionOrigin != "" && s.ConnectionOrigin != protocol.OriginEnvironment:
			field, problem = "connection_origin", fmt.Sprintf("%s: want environment or service", capabilities.QuoteName(clip(s.ConnectionOrigin)))
		case field == "" && count[s.ServerKey] > 1:
			field, problem = "server_key", fmt.Sprintf("%s is there twice; none of the two is started", capabilities.QuoteName(s.ServerKey))
		}
		t.add(s, false, at+field, problem)
	}
	for _, s := range t.options.Servers {
		if count[s.ServerKey] > 0 {
			t.log.Info("the assignment has a server of the same key as the configuration, which is not started", zap.String("server", s.ServerKey))
			continue
		}
		t.add(s, true, "mcp_servers", "")
	}
}

// add adds one server, or says what is wrong with it.
func (t *table) add(s protocol.MCPServer, local bool, field, problem string) {
	if problem == "" && len(t.servers) >= t.options.MaxServers {
		problem = fmt.Sprintf("%d servers are started already, which is the limit of a session", len(t.servers))
	}
	if problem != "" {
		t.failed(s.ServerKey, protocol.Errorf(protocol.CodeInvalidParams, "%s: %s", field, problem))
		return
	}
	t.servers = append(t.servers, newServer(t, s, local))
}

func (t *table) failed(key string, err *protocol.Error) {
	t.log.Warn("MCP server is not available", zap.String("server", clip(key)), zap.Error(err))
	t.session.SetMCP(key, protocol.MCPState{State: stateFailed, Error: toolError(err)})
}

func toolError(e *protocol.Error) *protocol.ToolError {
	return &protocol.ToolError{Code: e.Code, Reason: e.Reason(), Message: e.Message, Retryable: e.Data.Retryable}
}

// close ends all servers, and returns when nothing is left of them but what could not be ended.
func (t *table) close() {
	t.cancel()
	t.work.Wait()
}
