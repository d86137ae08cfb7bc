package agent

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/agent-executor/executor/cmd/executor/internal/config"
	"github.com/agent-executor/executor/cmd/executor/internal/config/configtest"
	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/protocol/brain"
	"github.com/agent-executor/executor/protocol/rpc"
)

// authority issues certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(raw)
	require.NoError(t, err)
	return &authority{t, cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})}
}

// issue makes a certificate for 127.0.0.1, of a server and a client in one.
func (a *authority) issue(serial int64, life time.Duration) (cert, key []byte) {
	a.t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	raw, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "leaf"},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(life), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}, a.cert, &k.PublicKey, a.key)
	require.NoError(a.t, err)
	der, err := x509.MarshalPKCS8PrivateKey(k)
	require.NoError(a.t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// serve is a brain with a certificate of the authority.
func (a *authority) serve(change func(*tls.Config)) *httptest.Server {
	a.t.Helper()
	certPEM, keyPEM := a.issue(2, time.Hour)
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	require.NoError(a.t, err)
	b := brain.New(brain.Options{})
	s := httptest.NewUnstartedServer(b)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	if change != nil {
		change(s.TLS)
	}
	s.StartTLS()
	a.t.Cleanup(func() {
		_ = b.Close("test ends")
		s.Close()
	})
	return s
}

func wss(s *httptest.Server) string { return strings.Replace(s.URL, "https", "wss", 1) }

// A certificate and authorities that are renewed in their files are used at the next
// dial, and one that is half written is not.
func TestTLSFilesAreReadAgain(t *testing.T) {
	a, b := newAuthority(t, "a"), newAuthority(t, "b")
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	var serials []int64
	requireClient := func(c *tls.Config) {
		c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, pool
		c.VerifyConnection = func(s tls.ConnectionState) error {
			serials = append(serials, s.PeerCertificates[0].SerialNumber.Int64())
			return nil
		}
	}
	one, two := a.serve(requireClient), b.serve(requireClient)
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	n := 0
	write := func(name string, content []byte) { // as a renewal does: another file in its place
		n++
		require.NoError(t, os.WriteFile(path(name+".new"), content, 0o600))
		require.NoError(t, os.Rename(path(name+".new"), path(name)))
	}
	cert, key := a.issue(10, time.Hour)
	write("ca", a.pem)
	write("cert", cert)
	write("key", key)
	f, warning, err := newTLSFiles(&config.Settings{CAFile: path("ca"), ClientCert: path("cert"), ClientKey: path("key")})
	require.NoError(t, err)
	require.Empty(t, warning)
	core, logs := observer.New(zap.InfoLevel)
	f.says(zap.New(core))
	dial := func(s *httptest.Server) error {
		config, err := f.current()
		require.NoError(t, err)
		frames, err := rpc.Dial(t.Context(), wss(s), rpc.DialOptions{TLS: config})
		if err == nil {
			_ = frames.Close(1000, "")
		}
		return err
	}
	require.NoError(t, dial(one))
	require.ErrorContains(t, dial(two), "certificate signed by unknown authority")
	require.NoError(t, dial(one))
	assert.Equal(t, []int64{10, 10}, serials)
	assert.Zero(t, logs.Len(), "nothing has changed")

	cert, key = a.issue(11, time.Hour)
	write("cert", cert) // and not yet its key
	require.NoError(t, dial(one))
	assert.Equal(t, 1, logs.FilterMessage("changed certificates cannot be used, those of before are").Len())
	write("key", key)
	write("ca", append(a.pem, b.pem...))
	require.NoError(t, dial(one))
	require.NoError(t, dial(two))
	assert.Equal(t, []int64{10, 10, 10, 11, 11}, serials)
	assert.Equal(t, 1, logs.FilterMessage("certificates were read again").Len())
	require.NoError(t, os.Remove(path("ca")))
	require.NoError(t, dial(two), "what there was before")
}

func TestTLSFilesRefuse(t *testing.T) {
	a := newAuthority(t, "a")
	cert, key := a.issue(1, time.Hour)
	old, oldKey := a.issue(2, -time.Hour)
	file := func(content []byte) string { return configtest.WriteFile(t, "f", string(content)) }
	open := file(key)
	require.NoError(t, os.Chmod(open, 0o644))
	for _, c := range []struct{ ca, cert, key, says, warns string }{
		{"", "", "", "", ""},
		{file(a.pem), "", "", "", ""},
		{"", file(cert), open, "", "client key file " + open + " has mode 0644, so that others can use the client key"},
		{"", file(cert), "", "client_cert is given without client_key", ""},
		{"", "", file(key), "client_key is given without client_cert", ""},
		{"", file(cert), file(oldKey), "private key does not match public key", ""},
		{"", file(old), file(oldKey), "has expired on", ""},
		{"", file(cert), "/none", "no such file", ""},
		{"/none", file(cert), file(key), "ca-file /none does not exist", ""},
		{"", file(key), file(key), "client_cert and client_key: ", ""},
	} {
		f, warning, err := newTLSFiles(&config.Settings{CAFile: c.ca, ClientCert: c.cert, ClientKey: c.key})
		if c.says != "" {
			require.ErrorContains(t, err, c.says)
			assert.Equal(t, cli.ExitUsage, cli.Code(err))
			assert.NotContains(t, err.Error(), "PRIVATE")
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, c.ca+c.cert == "", f == nil)
		assert.Equal(t, f == nil, f.source() == nil)
		if c.warns != "" {
			assert.Contains(t, warning, c.warns)
		} else {
			assert.Empty(t, warning)
		}
	}
}

// Nothing older than TLS 1.2, with and without files.
func TestOldTLSIsRefused(t *testing.T) {
	a := newAuthority(t, "a")
	s := a.serve(func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 })
	f, _, err := newTLSFiles(&config.Settings{CAFile: configtest.WriteFile(t, "ca", string(a.pem))})
	require.NoError(t, err)
	config, err := f.current()
	require.NoError(t, err)
	for _, c := range []*tls.Config{config, nil} {
		_, err = rpc.Dial(t.Context(), wss(s), rpc.DialOptions{TLS: c})
		assert.ErrorContains(t, err, "protocol version not supported")
	}
}
