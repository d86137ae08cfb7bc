package executor

func benchExecutor(string) {}
