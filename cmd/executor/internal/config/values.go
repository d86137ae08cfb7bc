package config

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agent-executor/executor/capabilities/standard"
	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/protocol"
)

// number is a setting that is a whole number, read in the same way in flags, variables
// and the file. It is a pflag.Value.
type number int

func (n *number) String() string { return strconv.Itoa(int(*n)) }
func (n *number) Type() string   { return "int" }

func (n *number) Set(text string) error {
	if err := refuseLeadingZero(text); err != nil {
		return err
	}
	v, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("%q: %s", text, cli.WantNumber)
	}
	*n = number(v)
	return nil
}

// refuseLeadingZero: 010 is ten to some and eight to others.
func refuseLeadingZero(text string) error {
	digits := strings.TrimLeft(text, "+-")
	if len(digits) > 1 && digits[0] == '0' {
		return fmt.Errorf("%q: a number that begins with 0 is not read the same by everybody; want it without", text)
	}
	return nil
}

func splitCommas(list []string) []string {
	var out []string
	for _, e := range list {
		for part := range strings.SplitSeq(e, ",") {
			if part = strings.TrimSpace(part); part != "" {
				out = append(out, part)
			}
		}
	}
	return out
}

// splitLines splits a variable at its line ends: a command may have any other character.
func splitLines(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == '\n' })
}

// splitURLs splits a variable at the colons that another URL follows.
func splitURLs(s string) []string {
	if filepath.ListSeparator != ':' {
		return filepath.SplitList(s)
	}
	var list []string
	for _, part := range filepath.SplitList(s) {
		begins := slices.Contains([]string{"ws", "wss", "unix", "unix+listen"}, part)
		if begins || len(list) == 0 {
			list = append(list, part)
		} else {
			list[len(list)-1] += ":" + part
		}
	}
	return list
}

// splitRoots splits a variable as PATH is, and leaves :ro with its directory. A
// directory of that name is written ./ro.
func splitRoots(s string) []string {
	var list []string
	for _, part := range filepath.SplitList(s) {
		if (part == "ro" || part == "rw") && len(list) > 0 {
			list[len(list)-1] += ":" + part
		} else {
			list = append(list, part)
		}
	}
	return list
}

func refuseRunAs(s *Settings) error {
	if s.RunAs == "" {
		return nil
	}
	_, err := standard.ParseRunAs(s.RunAs)
	return err
}

func refuseRlimit(s *Settings) error {
	for _, text := range s.Rlimit {
		if _, err := standard.ParseLimit(text); err != nil {
			return err
		}
	}
	return nil
}

func refuseNice(s *Settings) error {
	if s.Nice < -20 || s.Nice > 19 {
		return fmt.Errorf("%d: want -20 to 19", s.Nice)
	}
	return nil
}

func refuseOOMScore(s *Settings) error {
	if s.OOMScoreAdjust < 0 || s.OOMScoreAdjust > 1000 {
		return fmt.Errorf("%d: want 0 to 1000", s.OOMScoreAdjust)
	}
	return nil
}

// refuseMetricsListen judges an address.
func refuseMetricsListen(s *Settings) error {
	if s.MetricsListen == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(s.MetricsListen)
	if n, bad := strconv.Atoi(port); err != nil || bad != nil || n < 0 || n > 65535 {
		return fmt.Errorf("%q: want HOST:PORT, like 127.0.0.1:9464 or [::1]:9464", s.MetricsListen)
	}
	return nil
}

// minRequestTimeout is shorter than any network needs.
const minRequestTimeout = 100 * time.Millisecond

func refuseNoCapabilities(s *Settings) error {
	if len(splitCommas(s.Capabilities)) == 0 {
		return errors.New("the list is empty; name some, or leave it out for all")
	}
	return nil
}

func refuseRequestTimeout(s *Settings) error {
	if s.RequestTimeout < minRequestTimeout {
		return fmt.Errorf("%v: want at least %v; a slow answer would end every connection", s.RequestTimeout, minRequestTimeout)
	}
	return nil
}

func refuseInlineResult(s *Settings) error {
	if s.InlineResultBytes > protocol.DefaultMaxControlFrame {
		return fmt.Errorf("%d: want at most %d, which is what a frame holds", s.InlineResultBytes, protocol.DefaultMaxControlFrame)
	}
	return nil
}
