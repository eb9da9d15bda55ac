package smoke

import "testing"

// childSeconds is not to be had here: the programs' time is not limited.
func childSeconds(*testing.T) float64 { return 0 }
