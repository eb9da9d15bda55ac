//go:build !race

package smoke

const raced = false
