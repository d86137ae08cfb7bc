package redact

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

type panics struct{}

func (panics) String() string { panic("no") }

// Whatever a logger is given, no secret is in what it writes.
func TestCore(t *testing.T) {
	const secret = `sec"ret-0123456789`
	r := New(secret)
	for name, encoder := range map[string]zapcore.Encoder{
		"json":    zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()),
		"console": zapcore.NewConsoleEncoder(zap.NewDevelopmentEncoderConfig()),
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			log := zap.New(Core(zapcore.NewCore(encoder, zapcore.AddSync(&out), zap.InfoLevel), r))
			u, err := url.Parse("https://host/?t=" + url.QueryEscape(secret))
			require.NoError(t, err)
			log.Named("part").With(zap.String("with", secret)).Error("message "+secret, zap.String(secret, "key"), zap.String("text", "a "+secret+" b"),
				zap.Error(fmt.Errorf("dial: %w", errors.New(secret))), zap.ByteString("bytes", []byte(secret)), zap.Binary("binary", []byte(secret)),
				zap.Any("map", map[string]any{"a": []string{secret}}), zap.Strings("list", []string{"x", secret}), zap.Stringer("url", u),
				zap.Dict("dict", zap.String("in", secret)), zap.Inline(zapcore.ObjectMarshalerFunc(func(e zapcore.ObjectEncoder) error {
					e.AddString("inline", secret)
					return nil
				})), zap.Errors("errors", []error{errors.New(secret)}), zap.Stringer("panics", panics{}),
				zap.Int("number", 7), zap.Duration("took", time.Second), zap.Strings("clean", []string{"stays", "a list"}), zap.Namespace("below"), zap.String("last", secret))
			require.NoError(t, log.Sync())
			text := out.String()
			for _, form := range forms(secret) {
				assert.NotContains(t, text, form)
			}
			assert.Contains(t, text, "message [redacted]")
			assert.Contains(t, text, "dial: [redacted]")
			assert.Contains(t, text, "a list")
			assert.Contains(t, text, "7")
			out.Reset()
			log.Debug("message " + secret)
			assert.Empty(t, out.String())
		})
	}
}
