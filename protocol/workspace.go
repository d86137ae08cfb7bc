package protocol

// WorkspaceBackup packs paths of the machine and sends them away.
var WorkspaceBackup = Method[WorkspaceBackupParams, WorkspaceBackupResult]{
	Spec: Spec{Name: "workspace.backup", From: Brain, Capability: "workspace.backup", Repeat: "backup_id"}}

type WorkspaceBackupParams struct {
	BackupID          string   `json:"backup_id"`
	Paths             []string `json:"paths"`
	Exclude           []string `json:"exclude,omitempty"`
	SkipIfFingerprint string   `json:"skip_if_fingerprint,omitempty"`
}

func (p WorkspaceBackupParams) Check() error { return required("backup_id", p.BackupID) }

// Values of WorkspaceBackupResult.State.
const (
	BackupDone      = "done"
	BackupUnchanged = "unchanged" // the fingerprint is the one to skip; nothing was stored
	BackupFailed    = "failed"
)

type WorkspaceBackupResult struct {
	State       string `json:"state"`
	Digest      string `json:"digest,omitempty"`
	Fingerprint string `json:"fingerprint,omitempty"`
	Entries     int64  `json:"entries"`
	Skipped     int64  `json:"skipped"`
	SizeBytes   int64  `json:"size_bytes"`
	Error       string `json:"error,omitempty"`
}
