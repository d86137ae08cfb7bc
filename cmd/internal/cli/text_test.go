package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestInvisibleCharactersAreShown(t *testing.T) {
	assert.Equal(t, `a\u200bb\u200d\u00ad\ufeff\u2066\u3164\ufe0f`, Line("a\u200bb\u200d\u00ad\ufeff\u2066\u3164\ufe0f"))
	assert.Equal(t, "é 中 x", Line("é 中 x"))
}
