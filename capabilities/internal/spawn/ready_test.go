//go:build unix

package spawn

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Nothing runs before Ready has returned, and a hook is not called before it either.
func TestReady(t *testing.T) {
	for name, hook := range map[string]func(*Launching) error{"no hook": nil, "hook": func(*Launching) error { return nil }} {
		t.Run(name, func(t *testing.T) {
			k := NewKeeper(Options{NoCgroup: true})
			var order []string
			if hook != nil {
				require.NoError(t, k.Configure(Launch{Hook: func(*Launching) error { order = append(order, "hook"); return nil }}))
			}
			k.Open(t.TempDir())
			defer k.Close()
			g := k.NewGroup()
			defer g.Close(0)
			file := filepath.Join(t.TempDir(), "ran")
			command := Command{Script: "echo >" + file, Env: testEnv(), Ready: func() {
				_, err := os.Stat(file)
				require.ErrorIs(t, err, os.ErrNotExist)
				order = append(order, "ready")
			}}
			p, err := g.Start(command)
			require.NoError(t, err)
			assert.Zero(t, p.Wait().Code)
			assert.FileExists(t, file)
			want := []string{"ready"}
			if hook != nil {
				want = append(want, "hook")
			}
			assert.Equal(t, want, order)

			order = nil
			_, err = g.Start(Command{Argv: []string{"/no/such/program"}, Ready: func() { order = append(order, "ready") }})
			require.Error(t, err)
		})
	}
}
