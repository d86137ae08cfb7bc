package config

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestRefuseMetricsListen(t *testing.T) {
	for addr, good := range map[string]bool{"": true, "127.0.0.1:9464": true, "[::1]:0": true, ":9464": true, "localhost:1": true,
		"9464": false, "127.0.0.1": false, "127.0.0.1:http": false, "127.0.0.1:65536": false, "::1:9464": false} {
		assert.Equal(t, good, refuseMetricsListen(&Settings{MetricsListen: addr}) == nil, addr)
	}
}
