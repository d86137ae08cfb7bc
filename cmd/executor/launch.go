package main

import (
	"fmt"

	"github.com/agent-executor/executor/capabilities/standard"
	"github.com/agent-executor/executor/cmd/internal/cli"
)

// launchOf is how the settings want commands to be started.
func launchOf(s *settings) (l standard.Launch, err error) {
	if s.RunAs != "" {
		if l.RunAs, err = standard.ParseRunAs(s.RunAs); err != nil {
			return l, err
		}
	}
	for _, text := range s.Rlimit {
		limit, err := standard.ParseLimit(text)
		if err != nil {
			return l, err
		}
		l.Limits = append(l.Limits, limit)
	}
	if l.Sandbox, err = sandboxOf(s); err != nil {
		return l, err
	}
	l.Nice, l.Prefix = s.Nice, s.LaunchPrefix
	switch s.OOMScoreAdjust {
	case defaultSettings().OOMScoreAdjust: // also where the system has no such thing
	case 0:
		l.OOMScore = -1
	default:
		l.OOMScore = s.OOMScoreAdjust
	}
	return l, nil
}

// configureChildren sets it. What cannot be done here ends the program now.
func configureChildren(children *standard.Children, s *settings, hide *cli.Redactor) error {
	l, err := launchOf(s)
	l.Mask = masker(s, hide)
	if err == nil {
		err = children.Configure(l)
	}
	if err != nil {
		return cli.WithCode(cli.ExitUsage, err)
	}
	return nil
}

func refuseRunAs(s *settings) error {
	if s.RunAs == "" {
		return nil
	}
	_, err := standard.ParseRunAs(s.RunAs)
	return err
}

func refuseRlimit(s *settings) error {
	for _, text := range s.Rlimit {
		if _, err := standard.ParseLimit(text); err != nil {
			return err
		}
	}
	return nil
}

func refuseNice(s *settings) error {
	if s.Nice < -20 || s.Nice > 19 {
		return fmt.Errorf("%d: want -20 to 19", s.Nice)
	}
	return nil
}

func refuseOOMScore(s *settings) error {
	if s.OOMScoreAdjust < 0 || s.OOMScoreAdjust > 1000 {
		return fmt.Errorf("%d: want 0 to 1000", s.OOMScoreAdjust)
	}
	return nil
}
