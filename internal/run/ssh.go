package run

import (
	"fmt"
	"strings"
)

// sshOptions let OpenSSH's programs ask nothing, since nobody is there to answer, and
// notice within half a minute that the other side is gone.
var sshOptions = []string{
	"-o", "BatchMode=yes", "-o", "ConnectTimeout=15", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3",
}

// SSHFailed is the exit code of ssh(1) for its own trouble: the host cannot be reached,
// is not the one that is known, or lets nobody in; or the connection broke.
const SSHFailed = 255

// SSH returns the argv that has host run a command, which the user's shell there reads.
// host is as CheckDestination lets it pass.
func SSH(host, command string) []string {
	argv := append([]string{"ssh", "-T"}, sshOptions...)
	// ssh takes an address of IPv6 without the brackets that sftp wants.
	return append(argv, "--", strings.NewReplacer("[", "", "]", "").Replace(host), command)
}

// SFTP returns the argv of an sftp that reads its commands from standard input and ends
// at the first that fails.
func SFTP(host string) []string {
	argv := append([]string{"sftp", "-b", "-"}, sshOptions...) // without -q, with which ssh hides why it fails
	return append(argv, "--", host)
}

// CheckDestination refuses what is no host for ssh: HOST or USER@HOST, an address of IPv6 with
// or without brackets.
func CheckDestination(host string) error {
	// Programs that ssh is set to start may take a name that begins with a hyphen for an option.
	if host == "" || strings.HasPrefix(host, "-") || strings.Contains(host, "@-") ||
		strings.ContainsAny(host, " \t\r\n/\\\"'") {
		return fmt.Errorf("%q is no host for ssh", host)
	}
	return nil
}
