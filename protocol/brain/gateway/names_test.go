package gateway_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol/brain/gateway"
)

// Tools whose names come out alike are all there, and each is called.
func TestNamesAlike(t *testing.T) {
	t.Parallel()
	real(t, gateway.Options{}, func(t *testing.T, w *world) {
		tools := func(names ...string) script {
			list := ""
			for _, n := range names {
				list += `,{"name":"` + n + `","inputSchema":{"type":"object"}}`
			}
			return script{"tools/list": `{"tools":[` + strings.TrimPrefix(list, ",") + `]}`}
		}
		w.executor("one", servers(scripted(t, "k", tools("a.b.c", "a.b_c", "a_b_c", "a_b_c", "x__y")), scripted(t, "k__x", tools("y")), scripted(t, "k.k", tools("z")), scripted(t, "k_k", tools("z"))))
		w.ready(1)
		c := w.client(nil)
		names := sorted(w.listed(c, 7))
		require.Len(t, names, 7, names)
		called := map[string]int{}
		for _, name := range names {
			require.Regexp(t, `^[a-zA-Z0-9_-]{1,64}$`, name)
			called[text(w.call(c, name, nil))]++
		}
		require.Equal(t, map[string]int{"called a.b.c": 1, "called a.b_c": 1, "called a_b_c": 1, "called x__y": 1, "called y": 1, "called z": 2}, called)
		require.Equal(t, "called a_b_c", text(w.call(c, "k__a_b_c", nil)), "the one that is called so keeps it")
		require.Equal(t, names, sorted(w.listed(w.client(nil), 7)), "another client sees the same")
	})
}
