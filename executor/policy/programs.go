package policy

import "strings"

// readers are the programs that only read, called as it is said here. An option that writes a file, runs a program,
// or has another meaning on another system is left out. To add one is to have read its manual to the end.
var readers = map[string]reader{
	"cat":       {flags: "AbeEnstTuv", long: "--number --show-all --show-ends --show-tabs --squeeze-blank --number-nonblank", operands: -1},
	"tac":       {operands: -1},
	"head":      {flags: "qv0123456789", values: "nc", long: "--lines= --bytes= --quiet --verbose", operands: -1},
	"tail":      {flags: "qv0123456789", values: "nc", long: "--lines= --bytes= --quiet --verbose", operands: -1},
	"wc":        {flags: "clmwL", long: "--lines --bytes --words --chars", operands: -1},
	"nl":        {flags: "p", values: "bhfnsvwi", operands: -1},
	"rev":       {operands: -1},
	"cut":       {flags: "sz", values: "bcdf", long: "--complement --fields= --delimiter= --characters= --bytes= --only-delimited --output-delimiter=", operands: -1},
	"tr":        {flags: "cCdst", operands: 2},
	"fold":      {flags: "bs", values: "w", operands: -1},
	"paste":     {flags: "sz", values: "d", operands: -1},
	"column":    {flags: "tx", values: "s", operands: -1},
	"join":      {flags: "iz", values: "12aetvj", operands: 2},
	"comm":      {flags: "123z", operands: 2},
	"cmp":       {flags: "bls", values: "n", operands: 2},
	"diff":      {flags: "abBcdeEiNqrstTuwyZ0123456789", values: "UCIxW", long: "--unified[=] --brief --recursive --side-by-side --ignore-all-space --ignore-case --new-file --text --report-identical-files --no-dereference --stat --color[=]", operands: 2},
	"sort":      {flags: "bdfgiMhnRrVcCmsuz", values: "kt", long: "--key= --field-separator= --numeric-sort --reverse --unique --ignore-case --human-numeric-sort --version-sort --check --stable --zero-terminated", operands: -1},
	"uniq":      {flags: "cdDiuz", values: "fsw", long: "--count --repeated --unique --ignore-case --skip-fields= --skip-chars= --check-chars=", operands: 1},
	"seq":       {flags: "w", values: "fs", operands: 3},
	"strings":   {flags: "a", values: "nt", operands: -1},
	"od":        {flags: "bcdfiloxsv", values: "AjNtw", operands: -1},
	"hexdump":   {flags: "bcCdovx", values: "ns", operands: -1},
	"base64":    {flags: "di", values: "w", long: "--decode --wrap= --ignore-garbage", operands: 1},
	"md5sum":    checksums,
	"sha1sum":   checksums,
	"sha224sum": checksums,
	"sha256sum": checksums,
	"sha384sum": checksums,
	"sha512sum": checksums,
	"b2sum":     checksums,
	"cksum":     {operands: -1},

	"ls":       {flags: "1aAbBcCdDfFgGhHiklLmnNopqQrRsStuUvxXZ", values: "IwT", long: "--all --almost-all --human-readable --recursive --reverse --sort= --time= --color[=] --classify[=] --group-directories-first --full-time --time-style= --size --inode --directory --ignore=", operands: -1},
	"tree":     {flags: "adfilpsugDhvtrcUxNqCnQF", values: "LPI", long: "--noreport --dirsfirst --prune --filelimit= --du --si --gitignore", operands: -1},
	"stat":     {flags: "fLt", values: "c", long: "--format= --printf= --dereference --file-system --terse", operands: -1},
	"file":     {flags: "bihLN0", long: "--brief --mime --mime-type --mime-encoding --dereference --no-dereference", operands: -1},
	"du":       {flags: "0abcDhHklLmPsSx", values: "dBt", long: "--max-depth= --summarize --human-readable --all --total --apparent-size --exclude= --bytes", operands: -1},
	"df":       {flags: "ahHiklPT", values: "tx", long: "--human-readable --inodes --print-type --total --output[=]", operands: -1},
	"readlink": {flags: "femnqsvz", long: "--canonicalize --canonicalize-existing --canonicalize-missing --no-newline", operands: -1},
	"realpath": {flags: "emLPqsz", long: "--relative-to= --relative-base= --no-symlinks --strip", operands: -1},
	"basename": {flags: "az", values: "s", operands: -1},
	"dirname":  {flags: "z", operands: -1},
	"pwd":      {flags: "LP", operands: 0},
	"cd":       {flags: "LP", operands: 1},
	"which":    {flags: "as", operands: -1},
	"type":     {flags: "afptP", operands: -1},

	"echo":   {check: func([]string) string { return "" }},
	"printf": {operands: -1},
	"true":   {check: func([]string) string { return "" }},
	"false":  {check: func([]string) string { return "" }},
	":":      {operands: -1},
	"test":   {check: readsTest},
	"[":      {check: readsTest},

	"date":     {check: readsDate},
	"uname":    {flags: "asnrvmpio", long: "--all --kernel-name --machine --kernel-release", operands: 0},
	"arch":     {operands: 0},
	"nproc":    {long: "--all --ignore=", operands: 0},
	"whoami":   {operands: 0},
	"id":       {flags: "GZgnruz", operands: -1},
	"groups":   {operands: -1},
	"hostname": {flags: "fisdIA", operands: 0},
	"uptime":   {flags: "ps", operands: 0},
	"free":     {flags: "bkmghtwl", operands: 0},
	"ps":       {flags: "AadefFHjlLMNTwxycu", values: "opCGUst", long: "--no-headers --sort= --pid= --ppid= --forest --format=", operands: 1},
	"locale":   {flags: "ackm", operands: -1},
	"env":      {operands: 0},
	"printenv": {operands: -1},

	"grep":  grep,
	"egrep": grep,
	"fgrep": grep,
	"rg": {flags: "acFhHiIlLnNoPqsSUuvVwx0.", values: "ABCEegmMrtTdj", long: "--files --hidden --no-ignore --ignore-case --smart-case --case-sensitive --count --count-matches --files-with-matches --files-without-match --fixed-strings " +
		"--line-number --no-line-number --word-regexp --multiline --multiline-dotall --only-matching --invert-match --text --json --vimgrep --no-heading --heading --with-filename --no-filename --stats --trim --no-config --pcre2 --quiet --null " +
		"--glob= --iglob= --type= --type-not= --max-count= --max-depth= --max-filesize= --context= --after-context= --before-context= --regexp= --color= --sort= --sortr= --replace= --encoding= --max-columns= --threads=", operands: -1},
	"find": {check: readsFind},
	"fd":   {flags: "HIsiFLap0d1gu", values: "detEcSo", long: "--hidden --no-ignore --type= --extension= --exclude= --max-depth= --min-depth= --glob --absolute-path --full-path --follow --color= --max-results= --size=", operands: -1},
	"sed":  {check: readsSed},
	"awk":  {check: readsAwk},
	"gawk": {check: readsAwk},
	"jq": {flags: "rcjaSesnCM", values: "", long: "--raw-output --compact-output --sort-keys --exit-status --slurp --null-input --raw-input --arg= --tab --indent= --color-output --monochrome-output --join-output --ascii-output",
		operands: -1},

	"git": {check: readsGit},

	"node":    version,
	"python3": version,
	"ruby":    version,
	"gcc":     version,
	"clang":   version,
	"cmake":   version,
	"make":    version,
	"bash":    version,
	"java":    onlyArgs("-version", "--version"),
}

var (
	checksums = reader{flags: "bctwz", long: "--check --quiet --status --warn --ignore-missing --tag --binary --text --strict", operands: -1}
	grep      = reader{flags: "abcEFGhHiIlLnoPqrRsTUvVwxyzZ0123456789", values: "ABCefmd", long: "--include= --exclude= --exclude-dir= --exclude-from= --color[=] --colour[=] --line-number --recursive --ignore-case --word-regexp " +
		"--files-with-matches --files-without-match --count --invert-match --only-matching --extended-regexp --fixed-strings --perl-regexp --context= --after-context= --before-context= --max-count= --with-filename --no-filename --text --null --quiet --regexp= --no-messages --binary-files= --line-regexp", operands: -1}
	version = onlyArgs("--version") // the letters have other meanings too
)

// readsTest takes words without brackets: bash's test expands the index of an array, also a command in it.
func readsTest(args []string) string {
	for i, a := range args {
		if strings.ContainsAny(a, "[$`") || strings.Contains(a, "]") && i < len(args)-1 {
			return "a word of it may be expanded once more"
		}
	}
	return ""
}
