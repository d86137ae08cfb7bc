// Package doctor looks at whether an executor could work here, and says what to do
// where it could not.
//
//	reports := doctor.Run(ctx, checks, 5*time.Second)
//
// A Check is one question; Run asks all, those that do not need each other at the same
// time. Its families: network.go and its neighbours for one brain, host.go for programs
// and the machine. No check changes anything.
package doctor

import (
	"context"
	"fmt"
	"time"
)

// Status is how a check came out.
type Status string

// Fail is what the executor cannot do without, Warn what somebody should know, Skip what
// could not be looked at, for a reason that the text says.
const (
	OK   Status = "ok"
	Warn Status = "warn"
	Fail Status = "fail"
	Skip Status = "skip"
)

// Result is the outcome of one check.
type Result struct {
	Status  Status   `json:"status"`
	Text    string   `json:"text"`              // what was found
	Remedy  string   `json:"remedy,omitempty"`  // what to do; not with OK
	Details []string `json:"details,omitempty"` // more that was found
}

func ok(format string, args ...any) Result {
	return Result{Status: OK, Text: fmt.Sprintf(format, args...)}
}

func skip(format string, args ...any) Result {
	return Result{Status: Skip, Text: fmt.Sprintf(format, args...)}
}

func warn(remedy, format string, args ...any) Result {
	return Result{Status: Warn, Text: fmt.Sprintf(format, args...), Remedy: remedy}
}

func fail(remedy, format string, args ...any) Result {
	return Result{Status: Fail, Text: fmt.Sprintf(format, args...), Remedy: remedy}
}

// Check is one question. Run must return soon after ctx is done. Checks that need
// others see what those have stored.
type Check struct {
	Name  string
	Needs []string // names of checks; when one failed or was skipped, so is this
	After []string // names of checks that must have ended, however
	Run   func(ctx context.Context) Result
}

// Report is a check with its outcome.
type Report struct {
	Name string `json:"name"`
	Result
	Took time.Duration `json:"-"`
}

// grace is for a check to return when its time is over.
const grace = 200 * time.Millisecond

// Run asks all checks and returns their reports in the same order. Each has the time
// that is given; one that has not returned then is left behind, as one that hangs in a
// dead network file system, so that the caller should end soon.
func Run(ctx context.Context, checks []Check, each time.Duration) []Report {
	reports := make([]Report, len(checks))
	done := make([]chan struct{}, len(checks))
	index := map[string]int{}
	for i, c := range checks {
		done[i] = make(chan struct{})
		index[c.Name] = i
	}
	for i, c := range checks {
		go func() {
			defer close(done[i])
			reports[i].Name = c.Name
			for _, need := range c.Needs {
				j, known := index[need]
				if !known {
					continue
				}
				<-done[j] // which comes, whatever that check does
				if s := reports[j].Status; s == Fail || s == Skip {
					reports[i].Result = skip("%s", because(need, reports[j]))
					return
				}
			}
			for _, other := range c.After {
				if j, known := index[other]; known {
					<-done[j]
				}
			}
			began := time.Now()
			reports[i].Result = run(ctx, c, each)
			reports[i].Took = time.Since(began)
		}()
	}
	for _, d := range done {
		<-d
	}
	return reports
}

// because is why a check was skipped: the first reason, not a chain of them.
func because(need string, r Report) string {
	if r.Status == Skip {
		return r.Text
	}
	return "not looked at, since " + need + " failed"
}

func run(ctx context.Context, c Check, each time.Duration) Result {
	if ctx.Err() != nil {
		return skip("not looked at, since the time for all checks is over")
	}
	ctx, cancel := context.WithTimeout(ctx, each)
	defer cancel()
	answer := make(chan Result, 1)
	go func() { answer <- c.Run(ctx) }()
	select {
	case r := <-answer:
		return r
	case <-ctx.Done():
	}
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case r := <-answer:
		return r
	case <-late.C:
		return fail("look what hangs there: a dead network file system, a program that waits", "no answer after %v", each)
	}
}

// Failed reports whether one failed.
func Failed(reports []Report) bool {
	for _, r := range reports {
		if r.Status == Fail {
			return true
		}
	}
	return false
}

// Named puts the name of a brain behind those of its checks, where there are several.
func Named(name string, checks []Check) []Check {
	for i := range checks {
		checks[i].Name += " (" + name + ")"
		for j := range checks[i].Needs {
			checks[i].Needs[j] += " (" + name + ")"
		}
		for j := range checks[i].After {
			checks[i].After[j] += " (" + name + ")"
		}
	}
	return checks
}
