//go:build !linux

package env

func freeSpace(string) (n int64, known bool) { return 0, false }

func mountedBelow(string) (string, error) { return "", nil }
