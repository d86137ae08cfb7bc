package protocol

// SkillInstall puts one revision of a skill onto the machine.
var SkillInstall = Method[SkillInstallParams, SkillInstallResult]{
	Spec: Spec{Name: "skill.install", From: Brain, Capability: "skills.install", Repeat: "revision_id"},
	Lane: func(p SkillInstallParams) string { return "skill/" + p.SkillID }}

type SkillInstallParams struct {
	SkillID           string `json:"skill_id"`
	RevisionID        string `json:"revision_id"`
	Digest            string `json:"digest"`
	DownloadToken     string `json:"download_token"`
	DownloadExpiresAt int64  `json:"download_expires_at,omitempty"` // Unix seconds
	MachineID         string `json:"machine_id,omitempty"`
}

func (p SkillInstallParams) Check() error {
	return required("skill_id", p.SkillID, "revision_id", p.RevisionID, "digest", p.Digest)
}

// Values of SkillInstallResult.State.
const (
	SkillInstalled = "installed"
	SkillFailed    = "failed"
)

type SkillInstallResult struct {
	State     string `json:"state"`
	ErrorCode string `json:"error_code,omitempty"`
	Error     string `json:"error,omitempty"`
}
