package redact

import "strings"

// Sensitive says whether a variable holds a secret by its name: its last word, in capitals and split at
// underscores, is TOKEN, KEY, SECRET or PASS or ends with TOKEN, SECRET, PASSWORD, PASSWD or PASSPHRASE.
func Sensitive(name string) bool {
	last := strings.ToUpper(name[strings.LastIndexByte(name, '_')+1:])
	switch last {
	case "KEY", "APIKEY", "PASS":
		return true
	}
	for _, end := range []string{"TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE"} {
		if strings.HasSuffix(last, end) {
			return true
		}
	}
	return false
}
