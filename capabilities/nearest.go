package capabilities

// Nearest returns the one of the known names that somebody who wrote name most
// likely meant, or "" when none is near.
func Nearest(name string, known []string) string {
	fields := make([]field, len(known))
	for i, k := range known {
		fields[i].name = k
	}
	return nearest(name, fields)
}
