// Package config is what the configuration of executor run is: its settings, where they are read from, and what
// is wrong with them.
//
//	given := config.Default()
//	config.AddFlags(cmd.Flags(), &given)
//	r := config.ResolveAll(cmd.Flags(), &given, os.Environ())
//	if err := r.Err(); err != nil { … }
//	use(r.Settings)
//
// A new setting is a field of Settings in settings.go and a line of the table in table.go; the flag, the variable,
// the key of the file, the help, the manual and the table of the README follow from that line. What a value may be
// is in values.go, or in a file of its own for those with a syntax: paths.go, tools.go, mcpservers.go and
// policyrules.go. resolve.go finds the effective settings, file.go reads the file and traps.go refuses what YAML
// makes of it; problem.go is what was found. init.go writes a file, show.go and check.go print.
//
// Nothing here connects anywhere or starts anything, and nothing may be called concurrently with a change of the
// settings that it is given.
package config
