package capabilities

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is to be done behind an answer is known to the host that has asked for it, and nothing without one.
func TestAfterAnswer(t *testing.T) {
	AfterAnswer(context.Background(), func() { t.Error("called without a host") })
	ctx, answer := WithAnswer(context.Background())
	require.Nil(t, answer.Then())
	done := 0
	AfterAnswer(ctx, func() { done++ })
	answer.Then()()
	require.Equal(t, 1, done)
}
