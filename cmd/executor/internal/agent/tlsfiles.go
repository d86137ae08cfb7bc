package agent

import (
	"crypto/tls"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/cmd/executor/internal/config"
	"github.com/agent-executor/executor/cmd/internal/cli"
)

// tlsFiles is the certificate authorities and the client's certificate as they are in
// their files at each dial: those that have changed are read again. Files that cannot be
// read then, as in the middle of a renewal, leave what there was before in use. It may be
// used concurrently.
type tlsFiles struct {
	ca, cert, key string
	log           *zap.Logger // nil until there is one

	mu     sync.Mutex
	config *tls.Config // nil: the system's authorities, and no certificate
	stamps [3]stamp
}

// stamp tells a file that was changed or replaced.
type stamp struct {
	file os.FileInfo
	at   time.Time
	size int64
}

func stampOf(path string) stamp {
	info, err := os.Stat(path)
	if path == "" || err != nil {
		return stamp{}
	}
	return stamp{info, info.ModTime(), info.Size()}
}

func (s stamp) same(other stamp) bool {
	if s.file == nil || other.file == nil {
		return s.file == nil && other.file == nil
	}
	return os.SameFile(s.file, other.file) && s.at.Equal(other.at) && s.size == other.size
}

// newTLSFiles reads the files of the settings; nil when there are none. What is wrong with
// one now is an error, a key that others can read a warning.
func newTLSFiles(s *config.Settings) (f *tlsFiles, warning string, err error) {
	switch {
	case s.ClientCert != "" && s.ClientKey == "":
		return nil, "", cli.Usagef("client_cert is given without client_key; give the file with its key with --client-key FILE")
	case s.ClientCert == "" && s.ClientKey != "":
		return nil, "", cli.Usagef("client_key is given without client_cert; give the file with the certificate with --client-cert FILE")
	case s.CAFile == "" && s.ClientCert == "":
		return nil, "", nil
	}
	f = &tlsFiles{ca: s.CAFile, cert: s.ClientCert, key: s.ClientKey}
	f.stamps = f.look()
	if f.config, err = f.load(); err != nil {
		return nil, "", err
	}
	if f.key != "" {
		warning = cli.SecretFileWarning(f.key, "client key")
	}
	return f, warning, nil
}

func (f *tlsFiles) look() [3]stamp {
	return [3]stamp{stampOf(f.ca), stampOf(f.cert), stampOf(f.key)}
}

func (f *tlsFiles) load() (*tls.Config, error) {
	config, err := tlsConfig(f.ca)
	if err != nil {
		return nil, err
	}
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if f.cert == "" {
		return config, nil
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key) // its errors have no content of the files
	if err != nil {
		return nil, cli.Usagef("client_cert and client_key: %w; want PEM, the certificate and the key that belongs to it", err)
	}
	if leaf := pair.Leaf; leaf != nil && time.Now().After(leaf.NotAfter) {
		return nil, cli.Usagef("client_cert %s has expired on %s; renew it", f.cert, leaf.NotAfter.Format(time.DateOnly))
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}

// current is executor.Options.TLSSource.
func (f *tlsFiles) current() (*tls.Config, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.look()
	if now[0].same(f.stamps[0]) && now[1].same(f.stamps[1]) && now[2].same(f.stamps[2]) {
		return f.config, nil
	}
	config, err := f.load()
	if err != nil {
		if f.log != nil {
			f.log.Warn("changed certificates cannot be used, those of before are", zap.Error(err))
		}
		return f.config, nil
	}
	f.config, f.stamps = config, now
	if f.log != nil {
		f.log.Info("certificates were read again")
	}
	return config, nil
}

// source is current, or nil where the system's authorities are all there is.
func (f *tlsFiles) source() func() (*tls.Config, error) {
	if f == nil {
		return nil
	}
	return f.current
}

// says makes the log of changes.
func (f *tlsFiles) says(log *zap.Logger) {
	if f != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.log = log
	}
}
