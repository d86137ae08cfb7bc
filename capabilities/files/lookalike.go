package files

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// likeness makes one of characters that are hard to tell apart where they are shown:
// quotes, dashes and spaces that a text was given by a word processor.
var likeness = strings.NewReplacer(
	"\u2018", "'", "\u2019", "'", "\u201b", "'", "\u201c", `"`, "\u201d", `"`, "\u201e", `"`, "\u2032", "'", "\u2033", `"`,
	"\u2010", "-", "\u2011", "-", "\u2012", "-", "\u2013", "-", "\u2014", "-", "\u2212", "-",
	"\u00a0", " ", "\u2007", " ", "\u2009", " ", "\u202f", " ", "\u200b", "", "\u200c", "", "\u200d", "", "\u2060", "", "\ufeff", "", "\u00ad", "",
	"\u2026", "...", "\r\n", "\n")

func alike(text string) string { return norm.NFC.String(likeness.Replace(text)) }

// lookalike finds old where the file has other characters that look the same, or the same
// ones in another form of Unicode; "" when it is not there like that either.
func lookalike(content []byte, old string) string {
	text, wanted := alike(string(content[:min(len(content), maxNearBytes)])), alike(old)
	at := strings.Index(text, wanted)
	if at < 0 || wanted == "" {
		return ""
	}
	number := 1 + strings.Count(text[:at], "\n")
	line := content
	for range number - 1 {
		line = line[lineEnd(line, 0):]
	}
	return fmt.Sprintf(": characters that look alike differ; with those of the file it is there %s: line %d is %s",
		times(strings.Count(text, wanted)), number, strconv.QuoteToASCII(clip(line[:lineEnd(line, 0)])))
}
