package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/standard"
	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/executor/approval"
	"github.com/agent-executor/executor/executor/audit"
	"github.com/agent-executor/executor/executor/policy"
	"github.com/agent-executor/executor/executor/trust"
)

const (
	// auditDir and approvalsFile are in the state directory.
	auditDir      = "audit"
	approvalsFile = "approvals.json"
)

// trusted is what decides for all brains: policy, approvals and audit log.
type trusted struct {
	gate *trust.Gate
	desk *approval.Desk
	log  *audit.Log
	zap  *zap.Logger

	children *standard.Children // whose PATH commands have
}

// openTrust opens the audit log and what was allowed always.
func openTrust(s *settings, hide *cli.Redactor, log *zap.Logger) (*trusted, error) {
	desk, err := approval.New(approval.Options{Timeout: s.ApprovalTimeout, File: filepath.Join(s.StateDir, approvalsFile), Logger: log})
	if err != nil {
		return nil, err
	}
	written, err := audit.Open(audit.Options{Dir: filepath.Join(s.StateDir, auditDir), MaxBytes: int64(s.AuditMaxBytes), Keep: s.AuditKeep, Required: s.AuditRequired, Logger: log})
	if err != nil {
		return nil, err
	}
	g := trust.New(trust.Options{Desk: desk, Audit: written, Redact: hide.Redact, Logger: log.Named("trust")})
	t := &trusted{gate: g, desk: desk, log: written, zap: log, children: s.children}
	apply, err := t.prepare(s)
	if err != nil {
		t.close()
		return nil, err
	}
	apply()
	return t, nil
}

// prepare judges the policy of settings, at the start and when they are read again, and changes nothing: that is done
// by what it returns, which cannot fail.
func (t *trusted) prepare(next *settings) (apply func(), err error) {
	one := *next
	one.children = t.children
	p, err := policyOf(&one)
	if err != nil {
		return nil, err
	}
	return func() {
		t.gate.SetPolicy(p)
		for _, text := range policyWarnings(&one) {
			t.zap.Warn(text)
		}
		t.zap.Info("what the brain asks for is decided by", zap.String("trust", one.Trust), zap.Int("policy", len(one.Policy)),
			zap.Int("allowed_always", len(t.desk.Rules())))
	}, nil
}

func (t *trusted) close() {
	if err := t.log.Close(); err != nil {
		t.zap.Error("the audit log was not closed well", zap.Error(err))
	}
}

func (t *trusted) status(s *programStatus) {
	s.ApprovalsWaiting = len(t.desk.Pending())
	lost, why := t.log.Lost()
	if s.AuditLost = lost; why != nil {
		s.AuditProblem = why.Error()
	}
}

// policyOf is the policy that the settings say.
func policyOf(s *settings) (*policy.Policy, error) {
	rules, err := policyRules(s.Policy)
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
func pathOf(s *settings) string {
	if s.children != nil {
		if path, ok := s.children.Login()["PATH"]; ok {
			return path
		}
	}
	return os.Getenv("PATH")
}

func refusePolicy(s *settings) error {
	_, err := policyRules(s.Policy)
	return err
}

// policyRules reads the setting policy: texts that are each a JSON object or a list of them.
func policyRules(texts []string) ([]policy.Rule, error) {
	var rules []policy.Rule
	var problems []error // of all rules
	count := 0
	for _, text := range texts {
		if strings.TrimSpace(text) == "" {
			continue
		}
		if !strings.HasPrefix(strings.TrimSpace(text), "[") {
			text = "[" + text + "]"
		}
		decoder := json.NewDecoder(strings.NewReader(text))
		var list []json.RawMessage
		if err := decoder.Decode(&list); err != nil {
			return nil, fmt.Errorf(`not JSON: %s; want {"command": "git push", "action": "deny"}`, strings.TrimPrefix(err.Error(), "json: "))
		}
		if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("something follows the JSON")
		}
		for _, raw := range list {
			r, err := policyRule(raw)
			if err == nil {
				err = r.Check()
			}
			if err != nil {
				problems = append(problems, &elementError{count, "rule", err})
			}
			count++
			rules = append(rules, r)
		}
	}
	if len(problems) == 1 {
		return nil, problems[0]
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return rules, nil
}

// ruleKeys are the keys of a rule.
var ruleKeys = []string{"tool", "command", "exact", "path", "session", "action", "reason"}

func policyRule(raw json.RawMessage) (r policy.Rule, err error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return r, errors.New("want an object with keys like command and action")
	}
	for _, m := range []struct {
		key string
		to  any
	}{{"tool", &r.Tool}, {"command", &r.Command}, {"exact", &r.Exact}, {"path", &r.Path}, {"session", &r.Session}, {"action", &r.Action}, {"reason", &r.Reason}} {
		value, ok := members[m.key]
		delete(members, m.key)
		if !ok {
			continue
		}
		if err := json.Unmarshal(value, m.to); err != nil {
			return r, memberError(m.key, err)
		}
	}
	for key := range members {
		if near := capabilities.Nearest(key, ruleKeys); near != "" {
			return r, fmt.Errorf("unknown key %q; did you mean %q?", key, near)
		}
		return r, fmt.Errorf("unknown key %q; there are %s", key, strings.Join(ruleKeys, ", "))
	}
	return r, nil
}

func memberError(key string, err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return fmt.Errorf("%s: %s", key, strings.TrimPrefix(err.Error(), key+": "))
	}
	want := map[string]string{"exact": "true or false", "session": "an object of texts"}[key]
	if want == "" {
		want = "a text"
	}
	return fmt.Errorf("%s: want %s, not a JSON %s", key, want, wrong.Value)
}

// approvalsAnswer is the answer to GET /approvals.
type approvalsAnswer struct {
	Approvals []approval.Item `json:"approvals"`
	Rules     []approval.Rule `json:"rules"`
}

// approvalDecision is the body of POST /approvals/{id}.
type approvalDecision struct {
	Allow bool           `json:"allow"`
	Scope approval.Scope `json:"scope,omitempty"`
}

// answer adds the routes.
func (t *trusted) answer(c *control) {
	c.handle("GET /approvals", func(*http.Request) (any, error) {
		return approvalsAnswer{t.desk.Pending(), append([]approval.Rule{}, t.desk.Rules()...)}, nil
	})
	c.handle("POST /approvals/{id}", func(r *http.Request) (any, error) {
		var d approvalDecision
		if err := body(r, &d); err != nil {
			return nil, err
		}
		switch d.Scope {
		case "", approval.Once, approval.Session, approval.Always:
		default:
			return nil, controlError{http.StatusBadRequest, fmt.Errorf("scope: %q: want once, session or always", d.Scope)}
		}
		by := "control socket"
		if p, ok := peerOf(r.Context()); ok {
			by = fmt.Sprintf("uid %d", p.UID)
		}
		t.zap.Info("the local user has decided", append(asker(r), zap.String("id", r.PathValue("id")), zap.Bool("allow", d.Allow), zap.String("scope", string(d.Scope)))...)
		return d, unknownID(t.desk.Decide(r.PathValue("id"), approval.Answer{Allow: d.Allow, Scope: d.Scope, By: by}))
	})
	c.handle("DELETE /approvals/rules/{id}", func(r *http.Request) (any, error) {
		return struct{}{}, unknownID(t.desk.Forget(r.PathValue("id")))
	})
}

func unknownID(err error) error {
	if errors.Is(err, approval.ErrUnknown) {
		return controlError{http.StatusNotFound, err}
	}
	return err
}
