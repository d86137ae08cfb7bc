package main

import (
	"fmt"
	"strconv"

	"github.com/agent-executor/executor/cmd/internal/cli"
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
