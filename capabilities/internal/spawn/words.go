package spawn

import "runtime"

// Words say what is in force, and what that means, in sentences for a person: one fact each. Where
// something is missing the sentence says what it costs.
func (m Means) Words() []string { return m.wordsOn(runtime.GOOS) }

func (m Means) wordsOn(system string) []string {
	if system == "windows" {
		return append([]string{
			"this system keeps no trees of processes: only a command itself is ended, not what it has started",
			"commands go on when the executor is killed, and are not found again",
		}, m.Launch...)
	}
	var list []string
	say := func(is bool, yes, no string) {
		if is {
			list = append(list, yes)
		} else {
			list = append(list, no)
		}
	}
	say(m.ParentDeath,
		"a command ends in the moment the executor does, however that ends",
		map[bool]string{
			true:  "a command goes on when the executor is killed, until the next start on the same state directory ends it",
			false: "a command goes on when the executor is killed, and is not found again",
		}[system == "linux" || system == "darwin"])
	switch {
	case m.Labels:
		list = append(list, "every descendant of a command is known by an inherited label")
	case system == "linux" || system == "darwin":
		list = append(list, "there are no labels here: a descendant that left its group is known by an environment variable, and is not found when that was cleared")
	default:
		list = append(list, "a descendant that left its group is known by its parent while that lives, and is not found on this system afterwards")
	}
	say(m.Adoption,
		"a descendant whose parent has ended becomes a child of the executor, which waits for it and ends it with itself",
		"a descendant whose parent has ended is the system's own: one that got rid of everything else is not found")
	switch {
	case m.Cgroup != "":
		list = append(list, "commands are in a control group, "+m.Cgroup+": nothing gets away from it, and it is ended at once")
	case m.NoCgroup != "":
		list = append(list, "there is no control group for commands: "+m.NoCgroup)
	}
	return append(list, m.Launch...)
}
