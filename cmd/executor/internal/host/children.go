package host

import (
	"path/filepath"
	"strings"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/capabilities/standard"
)

// OpenChildren ends what an earlier executor left running, takes hold of what this one is going to start,
// and says both. Of a process only the program is logged: its arguments are the brain's or the user's.
// It is an error that a sandbox which is configured could not be opened.
func OpenChildren(children *standard.Children, stateDir string, log *zap.Logger) error {
	report := children.Open(stateDir)
	means := children.Means()
	log.Info("child processes are kept hold of", zap.Bool("end_with_executor", means.ParentDeath), zap.Bool("labels", means.Labels),
		zap.Bool("adoption", means.Adoption), zap.String("cgroup", means.Cgroup), zap.String("no_cgroup", means.NoCgroup),
		zap.Strings("launch", means.Launch))
	for _, m := range report.Ended {
		log.Warn("a process that an earlier executor left running was ended", zap.Int("pid", m.PID), zap.String("program", programOf(m.Command)))
	}
	for _, s := range report.Survivors {
		log.Error("a process that an earlier executor left running could not be ended", zap.Int("pid", s.PID),
			zap.String("program", programOf(s.Command)), zap.String("reason", s.Reason))
	}
	for _, m := range report.LeftAlone {
		log.Warn("a process carries the marker of an earlier executor's commands, but may be somebody else's; it is left alone",
			zap.Int("pid", m.PID), zap.String("program", programOf(m.Command)))
	}
	if report.Problem != nil {
		log.Warn("child processes may not be found again after a kill", zap.Error(report.Problem))
	}
	return report.Sandbox
}

// CloseChildren ends what is left when all sessions have ended.
func CloseChildren(children *standard.Children, log *zap.Logger) {
	for _, s := range children.Close() {
		log.Error("a process survived the executor", zap.Int("pid", s.PID), zap.String("program", programOf(s.Command)), zap.String("reason", s.Reason))
	}
}

// programOf is the name of the program in a command line.
func programOf(command string) string {
	name, _, _ := strings.Cut(command, " ")
	return filepath.Base(name)
}
