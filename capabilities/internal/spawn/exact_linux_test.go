package spawn

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// relay is a process that hands on to a new one and ends, over and over: it is never in the table for long.
const relay = `/usr/bin/perl -e 'use POSIX; setsid(); $0 = "relay 7001"; open(STDOUT,">","/dev/null"); open(STDERR,">","/dev/null"); $SIG{TERM}="IGNORE"; my $end = time + 10; while (time < $end) { my $p = fork; POSIX::_exit(0) if $p; }' & sleep 0.1; echo ready`

// A table that is read while its processes come and go shows each that was there all the time, or that
// another has become.
func TestTableMissesNoRelay(t *testing.T) {
	g := NewGroup()
	c := begin(t, g, strings.ReplaceAll(relay, "7001", unique()))
	c.Wait()
	missed := 0
	for range 200 {
		if len(c.Background()) == 0 {
			missed++
		}
	}
	assert.Zero(t, missed, "it is always there")
	assert.Empty(t, g.Close(50*time.Millisecond))
	assert.Empty(t, c.Background())
}

// A process that is becoming another program has no environment for a moment. It is marked all the same.
func TestMarkedInTheMiddleOfAnExec(t *testing.T) {
	g := NewGroup()
	defer func() { assert.Empty(t, g.Close(50*time.Millisecond)) }()
	c := begin(t, g, `echo ready; exec bash -c 'exec "$BASH" -c "$0" "$0"' 'exec "$BASH" -c "$0" "$0"'`)
	missed := 0
	for until := time.Now().Add(stress(time.Second/3, time.Second)); time.Now().Before(until); {
		if !marked(c.PID(), g.id) {
			missed++
		}
	}
	assert.Zero(t, missed)
	require.False(t, marked(os.Getpid(), g.id))
}

func TestMarkerIn(t *testing.T) {
	for environ, want := range map[string]string{
		"A=1\x00" + Marker + "=abc.1\x00B=2\x00":    "abc.1",
		"A=1\x00" + Marker + "\x00abc.1\x00B=2\x00": "abc.1", // bash takes it in just now
		Marker + "=": "",
	} {
		value, found := markerIn([]byte(environ))
		assert.True(t, found, environ)
		assert.Equal(t, want, string(value))
	}
	_, found := markerIn([]byte("A=" + Marker + "=1\x00B=2\x00"))
	assert.False(t, found)
}
