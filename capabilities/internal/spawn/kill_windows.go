package spawn

func kill(t *tree) []Survivor { return terminate(t, 0) }
