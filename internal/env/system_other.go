//go:build !linux

package env

func mountedBelow(string) (string, error) { return "", nil }
