package spawn

import (
	"regexp"
	"strings"
	"sync"
)

// LooksSecret says whether a variable is withheld from children because it looks like a credential.
// The rule, on the name in capitals, split at underscores:
//
//   - it contains PASSWORD, PASSWD, PASSPHRASE, SECRET, CREDENTIAL, APIKEY, ACCESSKEY or PRIVATEKEY;
//   - it ends with TOKEN or has TOKEN or TOKENS as a word;
//   - its last word is KEY, KEYS, PASS, PGPASS, AUTH, COOKIE, DSN or, behind another word, PWD;
//
// or on the value: it begins like a token of a well-known service, is a JSON web token or a private
// key, or is a URL with a password in it. The proxy variables are exempt from the rule on URLs, since
// without them nothing would reach the network; SSH_AUTH_SOCK and the like name a socket and pass.
func LooksSecret(name, value string) bool {
	upper := strings.ToUpper(name)
	for _, part := range [...]string{"PASSWORD", "PASSWD", "PASSPHRASE", "SECRET", "CREDENTIAL", "APIKEY", "ACCESSKEY", "PRIVATEKEY"} {
		if strings.Contains(upper, part) {
			return true
		}
	}
	words := strings.Split(upper, "_")
	last := words[len(words)-1]
	switch last {
	case "KEY", "KEYS", "PASS", "PGPASS", "AUTH", "COOKIE", "DSN":
		return true
	case "PWD":
		if len(words) > 1 {
			return true
		}
	}
	if strings.HasSuffix(last, "TOKEN") {
		return true
	}
	for _, word := range words {
		if word == "TOKEN" || word == "TOKENS" {
			return true
		}
	}
	// An expression that may match anywhere costs more than all the rest of an environment: first it is
	// asked whether there is a place for it. The other one is tried at the start only.
	if secretStart().MatchString(value) || strings.Contains(value, "-----BEGIN ") && secretKey().MatchString(value) {
		return true
	}
	return strings.Contains(value, "://") && !strings.HasSuffix(upper, "_PROXY") && secretURL().MatchString(value)
}

var (
	secretStart = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:Bearer |Basic |(?:gh[opsur]_|github_pat_|glpat-|xox[abeprs]-|npm_|pypi-|hf_|dckr_pat_|shpat_)[A-Za-z0-9_-]{10,}` +
			`|sk-[A-Za-z0-9_-]{16,}|sk_(?:live|test)_|rk_live_|(?:AKIA|ASIA)[A-Z0-9]{16}$|AIza[A-Za-z0-9_-]{35}$` +
			`|eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*$)`)
	})
	secretKey = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----`)
	})
	secretURL = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`[a-z][a-z0-9+.-]*://[^/\s:@]*:[^/\s@]+@`)
	})
)
