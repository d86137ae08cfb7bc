package oversight

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/capabilities/standard"
	"github.com/agent-executor/executor/cmd/executor/internal/config"
	"github.com/agent-executor/executor/cmd/executor/internal/control"
	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/executor/approval"
	"github.com/agent-executor/executor/executor/audit"
	"github.com/agent-executor/executor/executor/gate"
	"github.com/agent-executor/executor/executor/policy"
	"github.com/agent-executor/executor/executor/trust"
)

const (
	// AuditDir and approvalsFile are in the state directory.
	AuditDir      = "audit"
	approvalsFile = "approvals.json"
)

// Oversight is what decides for all brains: policy, approvals and audit log. Its methods may be called
// concurrently, but for Close, which is the last.
type Oversight struct {
	gate *trust.Gate
	desk *approval.Desk
	log  *audit.Log
	zap  *zap.Logger

	children *standard.Children // whose PATH commands have
}

// Open opens the audit log and what was allowed always; Close has to follow. It starts nothing.
func Open(s *config.Settings, hide *cli.Redactor, log *zap.Logger) (*Oversight, error) {
	desk, err := approval.New(approval.Options{Timeout: s.ApprovalTimeout, File: filepath.Join(s.StateDir, approvalsFile), Logger: log})
	if err != nil {
		return nil, err
	}
	written, err := audit.Open(audit.Options{Dir: filepath.Join(s.StateDir, AuditDir), MaxBytes: int64(s.AuditMaxBytes), Keep: s.AuditKeep, Required: s.AuditRequired, Logger: log})
	if err != nil {
		return nil, err
	}
	g := trust.New(trust.Options{Desk: desk, Audit: written, Redact: hide.Redact, Logger: log.Named("trust")})
	t := &Oversight{gate: g, desk: desk, log: written, zap: log, children: s.Children}
	apply, err := t.Prepare(s)
	if err != nil {
		t.Close()
		return nil, err
	}
	apply()
	return t, nil
}

// Prepare judges the policy of settings, at the start and when they are read again, and changes nothing: that is done
// by what it returns, which cannot fail.
func (t *Oversight) Prepare(next *config.Settings) (apply func(), err error) {
	one := *next
	one.Children = t.children
	p, err := policyOf(&one)
	if err != nil {
		return nil, err
	}
	return func() {
		t.gate.SetPolicy(p)
		for _, text := range config.PolicyWarnings(&one) {
			t.zap.Warn(text)
		}
		t.zap.Info("what the brain asks for is decided by", zap.String("trust", one.Trust), zap.Int("policy", len(one.Policy)),
			zap.Int("allowed_always", len(t.desk.Rules())))
	}, nil
}

// Close closes the audit log, when all sessions have ended.
func (t *Oversight) Close() {
	if err := t.log.Close(); err != nil {
		t.zap.Error("the audit log was not closed well", zap.Error(err))
	}
}

// Decide is executor.Options.Decide.
func (t *Oversight) Decide(r gate.Request) gate.Verdict { return t.gate.Decide(r) }

// Status fills in what there is of it.
func (t *Oversight) Status(s *control.Status) {
	s.ApprovalsWaiting = len(t.desk.Pending())
	lost, why := t.log.Lost()
	if s.AuditLost = lost; why != nil {
		s.AuditProblem = why.Error()
	}
}

// policyOf is the policy that the settings say.
func policyOf(s *config.Settings) (*policy.Policy, error) {
	rules, err := config.PolicyRules(s.Policy)
	if err != nil {
		return nil, cli.Usagef("policy: %w", err)
	}
	p, err := policy.New(policy.Options{Trust: policy.Trust(s.Trust), Rules: rules, Path: func() string { return pathOf(s) }})
	if err != nil {
		return nil, cli.Usagef("policy: %w", err)
	}
	return p, nil
}

// pathOf is the PATH that commands have.
func pathOf(s *config.Settings) string {
	if s.Children != nil {
		if path, ok := s.Children.Login()["PATH"]; ok {
			return path
		}
	}
	return os.Getenv("PATH")
}

// Approvals is the answer to GET /approvals.
type Approvals struct {
	Approvals []approval.Item `json:"approvals"`
	Rules     []approval.Rule `json:"rules"`
}

// Decision is the body of POST /approvals/{id}.
type Decision struct {
	Allow bool           `json:"allow"`
	Scope approval.Scope `json:"scope,omitempty"`
}

// Answer adds the routes.
func (t *Oversight) Answer(c *control.Server) {
	c.Handle("GET /approvals", func(*http.Request) (any, error) {
		return Approvals{t.desk.Pending(), append([]approval.Rule{}, t.desk.Rules()...)}, nil
	})
	c.Handle("POST /approvals/{id}", func(r *http.Request) (any, error) {
		var d Decision
		if err := control.ReadBody(r, &d); err != nil {
			return nil, err
		}
		switch d.Scope {
		case "", approval.Once, approval.Session, approval.Always:
		default:
			return nil, control.WithStatus(http.StatusBadRequest, fmt.Errorf("scope: %q: want once, session or always", d.Scope))
		}
		by := "control socket"
		if p, ok := control.PeerOf(r.Context()); ok {
			by = fmt.Sprintf("uid %d", p.UID)
		}
		t.zap.Info("the local user has decided", append(control.Asker(r), zap.String("id", r.PathValue("id")), zap.Bool("allow", d.Allow), zap.String("scope", string(d.Scope)))...)
		return d, unknownID(t.desk.Decide(r.PathValue("id"), approval.Answer{Allow: d.Allow, Scope: d.Scope, By: by}))
	})
	c.Handle("DELETE /approvals/rules/{id}", func(r *http.Request) (any, error) {
		return struct{}{}, unknownID(t.desk.Forget(r.PathValue("id")))
	})
}

func unknownID(err error) error {
	if errors.Is(err, approval.ErrUnknown) {
		return control.WithStatus(http.StatusNotFound, err)
	}
	return err
}
