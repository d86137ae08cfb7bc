package approval

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.uber.org/zap"
)

// Rule is something that the local user has allowed always.
type Rule struct {
	ID      string    `json:"id"` // of the question it was the answer to
	Tool    string    `json:"tool"`
	What    string    `json:"what"`
	Dir     string    `json:"dir,omitempty"`
	Added   time.Time `json:"added"`
	Subject string    `json:"subject"`
}

// maxRules bounds the file.
const maxRules = 10_000

// Rules lists what is allowed always, oldest first.
func (d *Desk) Rules() []Rule {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.rules)
}

// Forget takes back what was allowed always. The error is ErrUnknown, or that of the file.
func (d *Desk) Forget(id string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.IndexFunc(d.rules, func(r Rule) bool { return r.ID == id })
	if i < 0 {
		return fmt.Errorf("%w: %q; want the whole ID as executor approvals --rules prints it", ErrUnknown, id)
	}
	rules := slices.Delete(slices.Clone(d.rules), i, i+1)
	if err := d.save(rules); err != nil {
		return err
	}
	d.rules = rules
	return nil
}

// remember allows the subject of a question always.
func (d *Desk) remember(t *Ticket) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.rules) >= maxRules {
		return fmt.Errorf("%d things are allowed always already; take some back first", len(d.rules))
	}
	r := Rule{ID: t.item.ID, Tool: t.item.Tool, What: t.item.What, Dir: t.item.Dir, Added: time.Now().UTC(), Subject: t.question.Subject}
	for slices.ContainsFunc(d.rules, func(o Rule) bool { return o.ID == r.ID }) {
		r.ID += "x"
	}
	rules := append(slices.Clone(d.rules), r)
	if err := d.save(rules); err != nil {
		return fmt.Errorf("what is allowed always could not be written: %w", err)
	}
	d.rules = rules
	return nil
}

// rulesFile is what the file holds.
type rulesFile struct {
	Allowed []Rule `json:"allowed"`
}

func (d *Desk) load() error {
	if d.options.File == "" {
		return nil
	}
	raw, err := os.ReadFile(d.options.File)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("what is allowed always: %w", err)
	}
	var f rulesFile
	err = json.Unmarshal(raw, &f)
	if err == nil && slices.ContainsFunc(f.Allowed, func(r Rule) bool { return r.Subject == "" || r.ID == "" }) {
		err = errors.New("an entry has no subject")
	}
	if err != nil {
		aside := d.options.File + ".damaged"
		d.log.Warn("the file of what is allowed always cannot be read and is set aside: nothing is allowed always now",
			zap.String("file", aside), zap.Error(err))
		return os.Rename(d.options.File, aside)
	}
	d.rules = f.Allowed
	return nil
}

// save writes the file anew: it is the old one or the new one, whatever happens.
func (d *Desk) save(rules []Rule) error {
	if d.options.File == "" {
		return nil
	}
	raw, err := json.MarshalIndent(rulesFile{rules}, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(d.options.File), ".approvals-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(append(raw, '\n'))
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), d.options.File)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
